### 页面上的文字：卡片标题、表头、按钮，以及对所显示内容的简短说明。

## 多处使用的词

rank-number = rank { $rank }
rank-heading = Rank { $rank }
worker-number = worker { $worker }
epoch-number = epoch { $epoch }
process-id = pid { $pid }
main-process = 主进程
training-process = 训练进程
ranks-counted = { COUNT($ranks) } 个 rank
steps-counted = { COUNT($steps) } 步
hosts-counted = { COUNT($hosts) } 台主机
runs-counted = { COUNT($runs) } 个运行
attempts-counted = { COUNT($attempts) } 次尝试
ranks-named = rank { LISTING($ranks) }
ranks-named-first = Rank { LISTING($ranks) }
phase-name = { $phase ->
        [wait] 等待
        [forward] 前向
        [backward] 反向
        [optimizer] 优化器
        [step] 训练步
        [teardown] 收尾
        [outside] 循环之外
        [idle] 空闲
        [fetch] 取数
        [collate] 拼批
        [starting] 启动
       *[other] { $phase }
    }
run-state = { $state ->
        [live] 实时
        [finished] 已完成
        [hung] 卡死
        [crashed] 已崩溃
        [stopped] 已终止
        [lost] 失去联系
       *[other] { $state }
    }
for-so-long = 已 { DURATION($lasted_s) }
simulated = 模拟
simulated-gpu = 模拟 GPU
show = 显示
hide = 隐藏
show-all = 显示全部
close = 关闭
cancel = 取消
save = 保存
trying-again = { $error }。正在重试。
trying-again-soon = { $error }。每隔几秒重试一次。
could-not-be-loaded = 无法加载
choose-longer-range = 请选更长的范围，或选“全部”。
no-steps-in-range = 这段时间内没有步
not-known-in-range = 此范围内无从得知
cuda-events-come-late = CUDA 事件要晚几步才能给出结果。
not-known-yet = 尚不清楚
not-watched = 已停止观察
joined-by-comma = { $before }，{ $next }
joined-by-semicolon = { $before }；{ $next }
copy-text = 复制 { $text }
copied-text = 已复制 { $text }
copy-failed = 无法复制，请手动选取：{ $text }

## 表头，磁贴和要点也使用

column-data-wait = 数据等待
column-steps-per-s = 步/秒
column-step-time = 单步耗时
column-wait = 等待
column-now-in = 当前阶段
column-state = 状态
column-gpu = GPU
column-epoch = epoch
column-rank = rank
column-worker = worker
column-process = 进程
column-sample = 样本
column-took = 耗时
column-load-alone = 单独加载

## 告警

alerts-title = { $of ->
        [rank] 此 rank 的告警
       *[run] 告警
    }
alerts-counted = { $firing ->
        [0] 共 { $all } 条，均未在告警
       *[other] { $firing } 条告警中，共 { $all } 条
    }
alerts-none = 没有检测器在{ $of ->
        [rank] 此 rank{ " " }
       *[run] 本次运行
    }中发现问题。
alert-state = { $state ->
        [firing] 告警中
        [acknowledged] 已确认
        [silenced] 已静默
        [resolved] 已恢复
       *[other] { $state }
    }
alert-lost = 损失 <b>{ DURATION($lost_s) }</b>
alert-lasted = 持续了 { DURATION($lasted_s) }
alert-open-for = 已持续 { DURATION($lasted_s) }
began-at = 始于 { $when }
alert-ended-at = 止于 { $when }
alert-confidence = 置信度 { PERCENT($confidence_ratio) }
alert-silent-until = 静默至 { $when }
alert-why = 原因
alert-advice = 怎么办
alert-gain = 修好后最多可省 <b>{ PERCENT($most_ratio) }</b> 的{ $of ->
        [run] 运行时间
       *[finding] 时间（问题持续期间）
    }。
acknowledge = 确认
silence-for-an-hour = 静默 1 小时
open-rank = 打开 rank { $rank }
evidence = 依据
finding-main-process = 训练进程
finding-sample = 样本 { $sample }
finding-samples = { COUNT($samples) } 个样本
also-seen = 同一原因，另外还发现
also-warned = 提前 { DURATION($before_s) }已告警 · { $scenario }

## 卡死

hang-card = { $is ->
        [recovering] 曾停住的位置
       *[frozen] 停住的位置
    }
hang-title = { $is ->
        [recovering] 已恢复，正在观察
        [frozen] 停住
       *[unheard] 最后一次上报时处于停住
    }
hang-recovering = 已继续运行；从 { $began } 起曾停住。此卡片会再保留片刻，以防再次停住
hang-since = 自 { $began } 起没有进展，已 <b>{ DURATION($lasted_s) }</b>
hang-until = { $began } 至 { $until } 没有进展，共 <b>{ DURATION($lasted_s) }</b>
hang-open-rank = 打开
hang-process-state = 状态 { $state }
hang-process-waits = 在 { $place } 中
hang-process-ended = 已退出
hang-no-sample = 没有正在读取的样本
hang-load-alone = 单独加载它即可复现
hang-stuck-at = 卡在
hang-no-stack = 还没有调用栈
hang-in-function = 在 { $function } 中

## 单独加载一个样本，以及 worker 最近的取数

script = 脚本
copy-the-script = 复制脚本
copy-script-for-sample = 复制单独加载它的脚本
script-for-sample = 单独加载 dataset[{ $sample }] 的脚本
script-for-sample-copied = 已复制单独加载 dataset[{ $sample }] 的脚本
sample-without-index = 无法单独加载：其样本没有索引。
copy-for-an-issue = 复制到 issue
stack-copied = 已复制 Markdown 格式的调用栈，附运行和加载器信息
last-fetches = 最近的取数
last-fetches-of-worker = worker { $worker } 最近的取数
fetches-none = 此 worker 还没有完成过取数。
fetches-that-ended = worker { $worker } 最近完成的取数
fetch-began = 开始
fetch-collate = 其中拼批
fetch-on-cpu = 占用 CPU
fetch-samples = 样本
fetch-slowest-sample = 最慢样本
fetch-slowest-took = dataset[{ $sample }]，{ DURATION($slow_s) }

## 一次运行的各次尝试

attempt-of = 第 { $attempt } 次尝试，共 { $attempts } 次
attempt-before = 上一次：{ KNOWN($steps) ->
        [yes] 在 { steps-counted }之后
       *[no] { "" }
    }{ $state ->
        [lost] 没有任何消息就结束了
        [stopped] 结束
        [finished] 完成
        [crashed] 崩溃
       *[other] { $state }
    }{ KNOWN($exit) ->
        [yes] ：{ $exit }
       *[no] { "" }
    }
attempt-newest = 第 { $attempt } 次尝试（最新）
attempt-choice = 第 { $attempt } 次尝试，{ $state ->
        [lost] 如何结束不明
        [stopped] 已停止
        [finished] 已完成
        [crashed] 已崩溃
       *[other] { $state }
    }
attempts-of-run = 本次运行的各次尝试
to-the-newest = 转到最新一次

## 配置建议

audit-title = 配置建议
audit-counted = { $changes ->
        [0] { $remarks ->
                [0] 无需修改
               *[other] { audit-remarks }
            }
       *[other] { audit-changes }{ $remarks ->
                [0] { "" }
               *[other] ，{ audit-remarks }
            }
    }
audit-changes = { COUNT($changes) } 项需修改
audit-remarks = { COUNT($remarks) } 条备注
audit-nothing = 无需修改
audit-nothing-why = worker、内存、启动和分片的配置都合理。

## epoch 边界

boundaries-title = epoch 边界
boundaries-about = 每个 epoch{ boundaries-of-rank }的构成
boundaries-about-cost = { boundaries-about }；启动、采样器、首个批次和收尾共耗时 { DURATION($cost_s) }{ KNOWN($run_s) ->
        [yes] ，占 { DURATION($run_s) }的 { PERCENT($cost_ratio) }
       *[no] { "" }
    }
boundaries-of-rank = { KNOWN($rank) ->
        [yes] （rank { $rank }）
       *[no] { " " }
    }
epoch-part = { $part ->
        [start] worker 启动
        [sampler] 采样器
        [first] 第一个批次
        [steady] 稳定段
        [teardown] 收尾
       *[gap] 到下一个的间隔
    }
epoch-part-took = { epoch-part } { DURATION($took_s) }
epoch-part-in-legend = { $part ->
        [start] worker 启动
        [sampler] 采样器
        [first] 第一个批次
        [teardown] 收尾
       *[gap] 到下一个的间隔
    }
epoch-boundary = 边界
epoch-goes-on = 仍在运行
epoch-ended-by = { $by ->
        [break] 提前退出
        [error] 因报错结束
        [worker_died] 因 worker 死亡而结束
       *[left_after_death] 在 worker 死亡后退出
    }
epochs-of-loader = { COUNT($epochs) } 个 epoch，边界耗时 { DURATION($cost_s) }{ KNOWN($shown) ->
        [yes] ；只显示最新的 { $shown } 个
       *[no] { "" }
    }
epochs-show-first = 显示 { $number } 个
epochs-show-more = 显示{ $all ->
        [yes] 全部
       *[no] 最新的
    } { $number } 个
loader-role = { $role ->
        [eval] 评估
       *[train] 训练
    }
epochs-none = 还没有 epoch 开始
epochs-none-why = 被监视的加载器每次 iter(loader) 增加一行。
epoch-batches = { COUNT($batches) } 个批次
epoch-workers-started = { KNOWN($workers) ->
        [yes] 启动 { $workers } 个
       *[no] 启动
    }
epoch-workers-reset = { KNOWN($workers) ->
        [yes] 重置 { $workers } 个
       *[no] 重置
    }
epoch-batches-thrown-away = 重置，丢弃 { $batches } 个

## 两次运行的对比

compare-title = 两次运行
compare-swap = 交换 A 和 B
compare-impossible = 这两次运行无法比较
all-runs = 所有运行
compared-run = 运行 { $which }
started-at = 开始于 { $when }
compared-for = 比较时长 { DURATION($compared_s) }
compare-sentence = 一句话结论
settings-that-differ = 不同的设置
settings-none-differ = 没有已知的不同
setting-of = 所属
setting = 设置
setting-where = { $where ->
        [process] 进程
        [machine] 机器
       *[other] { $where }
    }
what-was-measured = 测量结果
measured-about = 按时间平均；从 A 到 B 的变化及其 95% 区间
measure = 指标
measure-change = 变化
change-in-points = { $points } 个百分点
change-interval = { $low } 到 { $high }
course-metric = { $metric ->
        [steps_per_s] 每秒步数
       *[data_wait_ratio] 数据等待
    }
course-of-both = 两次运行的{ course-metric }
course-about = 从各自启动时算起
course-lines = { course-metric }：A 虚线，B 实线

## 谁在等谁

coupling-title = { $is ->
        [standing] 谁停在哪里
       *[going] 谁在等谁
    }
coupling-about = 最近 { DURATION($span_s) }，取所有 rank 都完成的 { COUNT($iterations) } 次迭代的平均{ $source ->
        [measured] ，等待时间由 DDP 的集合通信测得
        [durations] ，等待时间由各自耗时推算
       *[none] { "" }
    }
own-data-wait = 自身数据等待
own-work = 自己的计算
waits-for-other-ranks = 等其他 rank
coupling-late = { $cause ->
        [data] 等自己的数据 { DURATION($takes_s) }
       *[work] 自身工作需 { DURATION($takes_s) }
    }
coupling-early = { KNOWN($phase) ->
        [yes] 在“{ phase-name }”中等待
       *[no] 等待
    }
coupling-wait = <b>{ DURATION($wait_s) }</b>（每次迭代 { DURATION($iteration_s) }）
coupling-sentence = { ranks-named-first } 每次迭代用 { DURATION($wait_s) }等 { $waited_for }
coupling-turns = 各 rank 每次迭代等其他 rank { DURATION($wait_s) }，时而等这个，时而等那个：每批的数据或工作量不一。
coupling-even = 没有 rank 长时间等另一个 rank。
coupling-apart = { $reason }。仅凭耗时看不出谁在等谁。
coupling-unknown = { $reason }。
coupling-bar = { $is ->
        [late-data] 数据等待 { DURATION($takes_s) }
        [late-work] 自己的计算 { DURATION($takes_s) }
        [unmeasured] 每次 { DURATION($takes_s) }
        [several] 平均等待 { DURATION($takes_s) }
       *[waiting] 等 { DURATION($takes_s) }
    }
coupling-others = 其余 { COUNT($number) } 个
coupling-parts = 数据等待 { DURATION($data_s) }，自己的计算 { DURATION($own_s) }，等其他 rank { DURATION($others_s) }
coupling-bar-label = { $name }：{ coupling-parts }
coupling-bar-title = { coupling-parts }；共 { DURATION($iteration_s) }
standing-since = <b>{ DURATION($wait_s) }</b>{ $going ->
        [yes] （至今）
       *[no] （截至最后一次上报）
    }
standing-sentence = { ranks-named-first } 在等 { $waited_for }
standing-each-for-others = 它们互相等待：各自停在不同的集合通信里。
stands-in = 停在“{ $place }”中
place-of-ranks = { $state ->
        [moving] 仍在运行
        [ended] 已结束
        [crashed] 已崩溃
       *[unknown] 没有消息
    }
place-share = { PERCENT($share_ratio) }：{ ranks-named }
places-left-out = 另有 { COUNT($places) } 个分组；各 rank 的调用栈见其页面。
collective-ends = 距放弃该集合通信还有 <b>{ DURATION($left_s) }</b>（超时 { DURATION($timeout_s) }），届时作业退出。
collective-is-over = 该集合通信此时本应已被放弃（超时 { DURATION($timeout_s) }）。
collective-ended-unheard = 最后一次上报时，距放弃该集合通信还有 { DURATION($left_s) }（超时 { DURATION($timeout_s) }）。
collective-was-over = 最后一次上报时，该集合通信本应已被放弃（超时 { DURATION($timeout_s) }）。
stack = 调用栈
stack-of-ranks = 调用栈：{ ranks-named }

## 页面外围：顶栏、时间范围、卡片状态、键盘

brand-link = loaderwatch，所有运行
where-you-are = 当前位置
runs = 运行
crumb-two-runs = 两次运行
zone-switch = { $utc ->
        [yes] 当前显示 UTC 时间，点击改用本地时区（u）
       *[no] 当前显示本地时区，点击改用 UTC（u）
    }
zone-now = 以 UTC 显示时间，当前为 { $zone }
attention-switch = { $on ->
        [yes] 告警的系统通知和响铃已开启（n）
       *[no] 告警时提醒我：系统通知和响铃（n）
    }
attention = 告警时的系统通知和响铃
bar-theme = 主题：{ $theme ->
        [auto] 跟随系统
        [dark] 深色
       *[light] 浅色
    }（t）
bar-theme-change = 主题：{ $theme ->
        [auto] 跟随系统
        [dark] 深色
       *[light] 浅色
    }。切换
keyboard-help = 键盘（?）
keyboard-shortcuts = 键盘快捷键
keyboard = 键盘
run-not-found = 未找到
run-was-deleted = 运行已删除
signed-out = 已退出登录
no-connection = 无连接
page-is-stale = 数据已过时 { DURATION($age_s) }
connecting = 连接中
paused = 已暂停
live = 实时
up-to-date = 已是最新
resume = 继续（空格）
pause = 暂停（空格）
range-of-charts = 所有图表的时间范围
range-last = { $going ->
        [yes] 最近
       *[no] 显示最后
    }
range-span = { $span ->
        [300] 5 分钟
        [900] 15 分钟
        [3600] 1 小时
       *[all] 全部
    }
range-back = 返回（双击图表）
range-hint = 在图表上拖动可缩放所有图表
open-alerts = { $alerts ->
        [0] 没有未恢复的告警
       *[other] { $alerts } 条未恢复的告警
    }
card-is-gone = 已删除
card-is-stale = 已过时{ KNOWN($age_s) ->
        [yes] { " " }{ DURATION($age_s) }
       *[no] { "" }
    }
shortcut-keys = { $shortcut ->
        [list] j / k 或 ↓ / ↑
        [open] Enter
        [up] Esc 或 Backspace
        [ranks] { "[ / ]" }
        [ranges] 1 2 3 4
        [pause] 空格
        [alerts] a
        [theme] t
        [zone] u
        [language] l
        [attention] n
       *[help] ?
    }
shortcut-does = { $shortcut ->
        [list] 列表中的下一项、上一项
        [open] 打开
        [up] 上一级页面
        [ranks] 上一个、下一个 rank
        [ranges] 最近 5 分钟、15 分钟、1 小时、全部
        [pause] 暂停、继续
        [alerts] 转到告警
        [theme] 主题：跟随系统、浅色、深色
        [zone] 时间以 UTC 或本地时区显示
        [language] 语言：English、中文
        [attention] 告警时的系统通知和响铃：开、关
       *[help] 此列表
    }

## 无法显示内容的页面

you-are-signed-out = 你已退出登录
you-are-signed-out-why = 服务器更换了令牌，或会话已结束，或此地址上应答的是另一个进程。请用令牌登录，或打开 loaderwatch 在终端打印的地址。
token-needed = 此页面需要令牌
token-needed-why = 请打开 loaderwatch 在终端打印的地址，其中含有令牌。令牌也在服务器数据目录的 token.json 中。
token = 令牌
sign-in = 登录
no-such-attempt = { $run } 没有第 { $attempt } 次尝试
attempts-had = 共有 { attempts-counted }。
to-its-newest = 转到最新一次
no-such-run = 这里没有运行 { $run }
no-such-run-why = id 可能输错了，也可能该运行已被删除，或已超出此服务器的保留期限。
did-you-mean = 你要找的是不是
page-run-deleted = 这次运行已在服务器上删除，你看到的是它最后的状态。
page-no-answer = 服务器没有响应，每隔几秒重试一次。

## GPU

gpus-title = { KNOWN($host) ->
        [yes] { $host } 的 GPU
       *[no] GPU
    }
gpus-about = { KNOWN($from) ->
        [yes] 第 { $from } 至 { $to } 个，共 { $gpus } 个
       *[no] { COUNT($gpus) } 个 GPU
    }{ KNOWN($hosts) ->
        [yes] （{ $hosts } 台主机）
       *[no] { "" }
    }，5 秒平均{ KNOWN($ago_s) ->
        [yes] ，{ DURATION($ago_s) }前
       *[no] { "" }
    }
gpus-none = 没有已知的 GPU
gpus-none-why = 此主机的 streamer 尚未上报 GPU。
gpu-utilization-column = 利用率
gpu-memory-column = 显存
gpu-power-column = 功率
gpu-clock-column = SM 时钟频率
gpu-temperature-column = 温度
gpu-processes-column = 进程
gpu-number = GPU { $gpu }
gpu-of-ranks = GPU { $gpu }，rank { $ranks }
gpu-memory-of = { SIZE($used_bytes) } / { SIZE($total_bytes) }
gpu-power-limit = 上限 { COUNT($limit_w) }{ "\u202F" }W
gpu-processes-none = 未列出
gpu-processes-more = 以及另外 { $number } 个
gpu-process = { KNOWN($rank) ->
        [yes] rank { $rank }
       *[no] { KNOWN($name) ->
                [yes] { $name }
               *[no] 另一个进程
            }{ KNOWN($user) ->
                [yes] （{ $user }）
               *[no] { "" }
            }
    }，pid { $pid }{ KNOWN($memory_bytes) ->
        [yes] ：{ SIZE($memory_bytes) }{ KNOWN($sm_ratio) ->
                [yes] ，{ gpu-process-time }
               *[no] { "" }
            }
       *[no] { KNOWN($sm_ratio) ->
                [yes] ：{ gpu-process-time }
               *[no] { "" }
            }
    }
gpu-process-time = { PERCENT($sm_ratio) } 的时间

## rank 分组

groups-of-ranks = rank 分组
groups-ranks-column = rank 列表
groups-what-they-do = 在做什么
group-ended = { $state ->
        [crashed] 已崩溃
        [finished] 已结束
       *[lost] 失去联系
    }
group-differs = { $measure ->
        [data_wait_ratio] { $more ->
                [yes] 等待数据的时间比多数 rank 多
               *[no] 等待数据的时间比多数 rank 少
            }
        [step_s] { $more ->
                [yes] 每步时间比多数 rank 长
               *[no] 每步时间比多数 rank 短
            }
       *[gpu_utilization_ratio] { $more ->
                [yes] GPU 利用率比多数 rank 高
               *[no] GPU 利用率比多数 rank 低
            }
    }
group-goes-on = { $as_most ->
        [yes] 正常推进，与多数 rank 一样
       *[no] 正常推进，彼此一样
    }
group-stands = 停在“{ phase-name }”已有 { DURATION($age_s) }{ KNOWN($differs) ->
        [yes] ，并且{ $differs }
       *[no] { "" }
    }
groups-left-out = 另有 { ranks-counted } 在其他分组。
groups-show-all = 显示所有分组的 rank

## 热力图

heatmap-title = { $metric ->
        [data_wait_ratio] 谁在等，何时等
       *[other] { heat-metric }，按{ heatmap-by }和时间
    }
heatmap-label = 热力图：{ heat-metric }，按{ heatmap-by }和时间
heatmap-by = { $by ->
        [host] 主机
       *[rank] { " rank " }
    }
heatmap-one-rank = 数据等待的时间占比
heatmap-about = { $value ->
        [wait] 数据等待的时间占比
        [share] 时间或容量的占比
        [number] 其数值
       *[unit] 单位 { $unit }
    }，{ $by ->
        [host] 每台主机一行：取其各 rank 的{ $low ->
                [yes] 最小值
               *[no] 最大值
            }
       *[rank] 按 rank
    }{ KNOWN($drawn) ->
        [yes] ；显示 { COUNT($rows) } 行中的 { COUNT($drawn) } 行
       *[no] { "" }
    }；点击一行可打开{ $by ->
        [host] 其中最差的 rank
       *[rank] 该 rank
    }
heatmap-what-is-drawn = 显示的指标
heatmap-rows = 行
heatmap-rows-by = { $by ->
        [host] 按主机
       *[rank] 按 rank
    }
heatmap-order = 行的顺序
heatmap-order-by = { $order ->
        [worst] 最差的在前
       *[rank] 按编号
    }
heatmap-find = 查找 rank 或主机
heatmap-no-row = 没有匹配的行
heatmap-no-row-why = 本次运行没有 rank 或主机匹配“{ $find }”。
heatmap-empty = 此范围内没有数据
heatmap-not-reported = 此系统不上报该指标，或这些 rank 没有上报。
heatmap-all-wait = { PERCENT($wait_ratio) } 等待

## 运行的名称、标签和备注，以及删除

delete-run-named = 删除 { $name }
labels-of-run = { $name } 的名称、标签和备注
delete-this-run = 删除此运行
labels = 名称、标签和备注
run-name = 名称
run-tags = 标签，用逗号分隔
run-tags-example = baseline, resnet50
run-note = 备注
run-pinned = 置顶：排在列表最前，并且不会因过旧而被清理
delete-the-run = 删除此运行…
labels-need-token = 修改需要所有者令牌。
delete-needs-token = 删除需要所有者令牌。
delete-while-reporting = 此运行仍在上报；先结束其进程再删除。
delete-loses = 以下内容连同服务器上的文件将永久丢失：
delete-loses-records = { SIZE($records_bytes) } 的记录，时长 { DURATION($recorded_s) }
delete-loses-alerts = { COUNT($alerts) } 条告警
delete-loses-labels = 名称、标签和备注
delete-write-name = 要删除，请输入它的名称：
delete-for-good = 永久删除

## 运行和 rank 的页面

no-such-rank = 没有 rank { $rank }
no-such-rank-why = 这次运行有 { ranks-counted }。
back-to-the-run = 回到这次运行
rank-process = { $host }，pid { $pid }
rank-epoch = epoch { $epoch }，批次 { KNOWN($batch) ->
        [yes] { $batch }
       *[no] { "–" }
    }
rank-seen-at = 最近上报 { $when }
rank-previous = 上一个 rank（[）
rank-next = 下一个 rank（]）
processes-title = 当前进程
processes-about = 训练进程及其 DataLoader worker
processes-none = 还不知道有哪些进程
processes-none-why = streamer 尚未上报该 rank 的进程。
samples-title = 最慢的样本
samples-about = 整次运行，每个索引一行
samples-none = 还没有计时的样本
samples-none-why = 可迭代数据集和被包装的加载器没有可显示的索引。
samples-show-first = 显示 { $number } 个
samples-show-all = 显示全部 { $number } 个
steps-title = 一步的时间花在哪里
steps-about = 每步平均{ KNOWN($rank) ->
        [yes] （rank { $rank }）
       *[no] { "" }
    }{ $by_device ->
        [yes] ，按 GPU 计时
       *[no] { "" }
    }{ in-buckets }{ $split ->
        [yes] { "" }
       *[no] { " · " }给 attach() 传入 model= 和 optimizer=，可看到前向、反向和优化器
    }
in-buckets = { KNOWN($bucket_s) ->
        [yes] ，每 { DURATION($bucket_s) }一格
       *[no] { "" }
    }
steps-label = 随时间变化的堆叠柱：数据等待、H2D 拷贝、前向、反向、优化器、其他、等待其他 rank
gpu-title = { $gpu ->
        [yes] GPU 利用率
       *[no] 计算占比
    }
gpu-about = { $clock ->
        [simulated] 跟随训练进程；不是真实设备
        [gpu] 有 kernel 在运行的时间占比，以及功耗
       *[loop] 处于步内、不在等待的时间占比
    }
gpu-label = { $gpu ->
        [yes] GPU 利用率和功耗随时间变化
       *[no] 计算占比随时间变化
    }
no-readings-in-range = 这段时间内没有读数
gaps-stay-gaps = 读数中断的地方留空。
lanes-title = worker 时间线
lanes-about = 每条代表一次取数{ KNOWN($newest) ->
        [yes] ；只显示最新的 { $newest } 条
       *[no] { "" }
    }
lanes-held-up = 被单个样本拖慢
lanes-open-for-long = 长时间未完成
lanes-label = 每个 worker 一行，每次取数一条
lanes-none = 这段时间内没有取数
lanes-none-why = worker 取数时会上报；被包装的加载器没有 worker。
ready-title = 就绪的批次
ready-about = 循环取批次时已就绪、尚未读走的批次数{ KNOWN($most) ->
        [yes] ；虚线为上限（{ $most }）
       *[no] { "" }
    }
ready-label = 就绪的批次随时间变化
ready-none = 该加载器无此数据
ready-none-why = 没有 worker 进程的加载器没有可查看的队列。
headroom-title = GPU 余量
headroom-about = 没有下一个批次时还能撑多久
headroom-label = 没有下一个批次时 GPU 还能撑多久，随时间变化
counters-of-gpu = { $simulated ->
        [yes] GPU（模拟）
       *[no] GPU
    }
counters-of-machine = 机器与进程
counter-not-offered = 本系统不提供
stacks-title = 调用栈
stacks-about = { KNOWN($when) ->
        [yes] 每个进程最新的一份，采集于 { $when }
       *[no] 训练进程及其 worker 的
    }
stacks-take-now = 立即采集调用栈
stacks-none = 还没有采集调用栈
stacks-none-why = 有东西卡住、或 GPU 在步内忙闲波动时会自动采集；也可以现在采集，训练不会中断。

## rank 列表

ranks-title = rank 列表
ranks-find = 查找 rank
ranks-ready-column = 就绪
ranks-step-column = 所在步
ranks-none-found = 这次运行没有匹配“{ $find }”的 rank：请试试编号、主机名或状态。
ranks-shown = { $total ->
        [0] 没有找到
       *[other] 第 { COUNT($from) }–{ COUNT($to) } 个，共 { COUNT($total) } 个
    }{ KNOWN($detailed) ->
        [yes] ；其中 { COUNT($detailed) } 个逐行分析
       *[no] { "" }
    }
page-previous = 上一页 { $of ->
        [gpus] GPU
       *[ranks] rank
    }
page-next = 下一页 { $of ->
        [gpus] GPU
       *[ranks] rank
    }
rank-typed-unknown = 这次运行里没有这个 rank：{ KNOWN($typed) ->
        [yes] { $typed }
       *[no] （空）
    }
charts-of = 图表：
rank-shown = 当前显示 rank { $rank }，输入编号可切换
rank-on-host = { $host } · pid { $pid }

## 运行列表

runs-not-up-to-date = 不是最新数据：{ $error }。正在重试。
runs-could-not-be-loaded = 无法加载运行列表
runs-going-on = { runs-counted }，{ $going ->
        [0] 没有正在进行的
       *[other] 正在进行：{ $going }
    }
runs-which = 筛选运行
runs-search = 搜索运行
runs-search-in = 搜索名称、主机、#标签、结论
runs-sort = 排序
runs-sorted-by = { $by ->
        [seen] 最近活跃
        [trouble] 有问题的在前
        [name] 名称
        [steps] 步数最多
       *[newest] 最新
    }
runs-pick-another = { $name }：再选一次运行与它对比
runs-compare = 对比 { $a } 和 { $b }
runs-clear = 清除
runs-none-like-that = 没有符合条件的运行
runs-in-all = 一共 { runs-counted }。
run-column = 运行
verdict = 结论
run-started-column = 开始
run-seen-column = 最近活跃
run-attempt = 第 { $attempt } 次尝试
run-on-hosts = { ranks-counted }，在 { $hosts } 上
run-compare = 与另一次运行对比
run-compare-named = 对比 { $name }
run-pin = { $pinned ->
        [yes] 已置顶：排在列表最前，永久保留
       *[no] 置顶：排在列表最前，永久保留
    }
run-pin-named = 置顶 { $name }
run-edit = 名称、标签、备注、删除
runs-none = 还没有运行
runs-first-steps = 在训练脚本创建 DataLoader 的那一行下面加两行，然后在本机启动：
runs-appear = 一两秒内这次运行就会自动出现在这里。在其他机器上，把 <code>LOADERWATCH_SERVER</code> 设为本页地址，并把 <code>LOADERWATCH_TOKEN</code>
    设为 agent 令牌；令牌在服务器数据目录的 <code>token.json</code> 中。

## 降频、缺数据和速度

slowed-title = GPU 为何降频
slowed-about = 时间占比，以驱动报告为准；功耗上限是人为设定的限制，不是故障
slowed-label = GPU 降频原因随时间变化
slowed-none = 这段时间内没有降频
slowed-none-why = 没有过热或供电问题，也没有触及功耗上限。
slowed-not-told = 驱动不提供降频原因。
starvation-title = GPU 缺数据
starvation-about = 因缺批次而无事可做的时间占比；虚线为给出结论的门槛
starvation-label = GPU 缺数据的时间占比随时间变化
speed-title = 速度
speed-about = 训练步{ KNOWN($rank) ->
        [yes] （rank { $rank }）
       *[no] { "" }
    }，以及为其读取的样本{ in-buckets }；停住时为 0
speed-label = 每秒步数和样本数随时间变化，并标出设置、检查点、评估和告警

## 调用栈

stack-name = rank { $rank }，{ KNOWN($worker) ->
        [yes] worker { $worker }
       *[no] 训练进程
    } · pid { $pid }
stack-of = rank { $rank }{ KNOWN($worker) ->
        [yes] 、worker { $worker } { "" }
       *[no] { " " }训练进程
    }的调用栈 · pid { $pid }
stack-none = 没有取到调用栈。
stack-why = { $why ->
        [open-span] 进行中的区间
        [long-step] 过长的一步
        [requested] 已请求
        [GPU-idle] GPU 空闲
        [lock-wait] 等待锁
        [wait-for-an-answer] 等待应答
        [between-two-steps] 两步之间
        [reader-at-work] 正在读取
        [script-s-own-work] 脚本自己的工作
        [longer-step] 变长的一步
       *[other] { $said }
    }
stack-frames-in = { $packages } 中的 { $frames } 帧
stack-your-code = 你的代码

## 进程和慢样本

process-role = 训练
process-gone = pid { $pid }，已退出
process-os-state = { $state ->
        [R] 运行
        [S] 睡眠
        [D] 处于不可中断 I/O
        [T] 已停止
        [t] 被跟踪
        [Z] 僵尸进程
        [I] 空闲
       *[other] { "" }
    }
process-system-state = 系统状态
process-cpu = CPU
process-ram = 内存
process-threads = 线程数
process-batches = 批次数
sample-share-of-fetch = 占该次取数
sample-when = 时间

## 可以带走的内容

take-link = 复制链接
take-link-about = 当前视图的地址：含时间范围、rank 和告警
take-report = 报告
take-report-about = 把本页存成单个文件，断网也能打开
take-recording = 录制文件
take-recording-about = 这次运行最近一小时的数据，供 loaderwatch analyze FILE 使用

## 运行的页首、结论和磁贴

records-lost = 丢失 { COUNT($records) } 条记录
records-lost-about = 缓冲区已满，这些记录没来得及发送就被丢弃。图表可能有缺口，总数可能偏低。
ranks-not-watched = { ranks-counted } 已停止观察
not-watched-about = loaderwatch 自身多次出错，已在那里退出观察；训练照常进行。具体错误见作业的 stderr。
run-is-running = { $when } 开始，已运行 { DURATION($lasted_s) }
run-was-lost = { $when } 开始，最后一次上报 { $until }（{ AGO($ago_s) }）
run-has-ended = 运行了 { DURATION($lasted_s) }，结束于 { $until }（{ AGO($ago_s) }）
progress-epoch = epoch { COUNT($epoch) }{ KNOWN($epochs) ->
        [yes] /{ COUNT($epochs) }
       *[no] { "" }
    }
progress-step = 全局第 { COUNT($step) } 步
phases-missing = { $missing ->
        [optimizer] 没有对前向、反向和优化器计时：没有任何 PyTorch 优化器执行过 step。请给 loaderwatch.attach 传入 model= 和 optimizer=。
        [model] 没有对前向和反向计时：没有观察到被训练的模型被调用。请把循环所调用的模块作为 model= 传给 loaderwatch.attach，或在编译函数之外调用它。
        [many] 没有对前向和反向计时：循环并列调用的模块太多。请用一个模块统一调用它们，并把它作为 model= 传给 loaderwatch.attach。
       *[other] { "" }
    }
loader-facts = { $name }{ KNOWN($workers) ->
        [yes] ：{ $workers ->
                [0] 没有 worker
               *[other] { COUNT($workers) } 个 worker
            }{ KNOWN($batch_size) ->
                [yes] ，批次 { $batch_size }
               *[no] { "" }
            }
       *[no] { KNOWN($batch_size) ->
                [yes] ：批次 { $batch_size }
               *[no] { "" }
            }
    }
verdict-recovering = 已恢复，正在观察是否稳定。此前：{ $title }
see-the-evidence = 查看依据
clock-name = { $clock ->
        [device] GPU 计时
        [nvml] NVML 计时
        [loop] 循环计时
       *[mixed] GPU 和循环计时
    }
tile-lately = 最近 30 秒，{ clock-name }
tile-inside-steps = { tile-lately }；整步计入，告警指出步内损失 { PERCENT($lost_ratio) }
tile-without-gpu = { tile-lately }；没有 GPU 读数
tile-gpu = GPU 利用率
tile-gpu-of-run = 最近 30 秒，{ KNOWN($starved_ratio) ->
        [yes] { PERCENT($starved_ratio) } 的时间缺数据
       *[no] 各 rank 平均
    }
tile-gpu-of-rank = 最近 30 秒，{ KNOWN($gpu) ->
        [yes] { $host } 上的 GPU { $gpu }
       *[no] { $host }
    }
tile-duty = 计算占比
tile-speed = 速度
tile-speed-of-run = 步/秒，最近 30 秒 · 本次运行共 { COUNT($steps) } 步{ $eval_batches ->
        [0] { "" }
       *[other] ，{ COUNT($eval_batches) } 个评估批次
    }
tile-speed-of-rank = 步/秒，最近 30 秒{ KNOWN($step) ->
        [yes] { " · " }第 { COUNT($step) } 步
       *[no] { "" }
    }
tile-goodput = 有效占比
tile-lost = 损失的时间
tile-lost-of-run = { KNOWN($lost_ratio) ->
        [yes] 占整次运行的 { PERCENT($lost_ratio) }
       *[no] 整次运行
    }，{ clock-name }
tile-epochs = epoch 数
tile-epochs-begun = 本次运行已开始的{ KNOWN($batches) ->
        [yes] ，每个 { COUNT($batches) } 个批次
       *[no] { "" }
    }
tile-step-after-wait = { tile-lately }，此前等待 { DURATION($wait_s) }
tile-ready = 就绪的批次
tile-ready-about = 循环上次取批次时尚未读走的
tile-at-batch = 批次 { COUNT($batch) }

## 加载器的其他设置

whatif-title = 换用其他加载器设置
whatif-none = 还没有预测结果
whatif-none-why = 需要一个用于训练的 DataLoader、至少八个测量过的批次，以及一个等待 worker 的循环。
whatif-in-short = { KNOWN($loader) ->
        [yes] { $loader }：
       *[no] { "" }
    }{ $gains ->
        [yes] num_workers={ $workers } 时约 { $best } 批次/秒，现在 { $today } 批次/秒
       *[no] 换多少个 worker 都不会超过现在的 { $today } 批次/秒
    }
whatif-speed = { $rate } 批次/秒
whatif-rate = 批次/秒
whatif-range = 范围
whatif-range-of = { $least } 到 { $most }
whatif-saved = 节省的时间
whatif-memory = 预取占用的内存
whatif-option = 选项
whatif-basis = 依据
whatif-rests-on = { $loader }，rank { $rank }：用最近 { COUNT($batches) } 个批次推演得出（读一个批次 { DURATION($fetch_s) }，一步 { DURATION($step_s) }）{ KNOWN($cpus) ->
        [yes] ，共用 { THREE_DIGITS($cpus) } 个 CPU
       *[no] { "" }
    }。前提是并发读取增多后，存储给每个读取者的速度不低于现在。{ KNOWN($free_bytes) ->
        [yes] 可用空间（{ whatif-place }）：{ SIZE($free_bytes) }。
       *[no] { "" }
    }
whatif-too-much = 超过可用空间（{ whatif-place }）
whatif-place = { $free_in ->
        [memory] 内存
       *[other] { $free_in }
    }
whatif-mark = { $mark ->
        [today] 现在
        [knee] 已是最好
       *[full] CPU 已占满
    }：{ THREE_DIGITS($workers) }
whatif-today = 现在
whatif-as-good = 已达最佳
whatif-saves = { $saves ->
        [nothing] 无
        [costs] 最多多花 { PERCENT($cost_ratio) }
        [about] { PERCENT($most_ratio) }{ whatif-of-an-epoch }
       *[range] { PERCENT($least_ratio) } 到 { PERCENT($most_ratio) }{ whatif-of-an-epoch }
    }
whatif-of-an-epoch = { KNOWN($per_epoch_s) ->
        [yes] ，每个 epoch { DURATION($per_epoch_s) }
       *[no] { "" }
    }

## 各部分的时间花在哪里（调用栈采样）

profile-title = { $of ->
        [fetch] 一次取数的时间花在哪里
        [step] 一步的时间花在哪里
        [evaluation] 评估的时间花在哪里
       *[boundary] epoch 交界的时间花在哪里
    }
profile-about = 在随机时刻对调用栈采样，主要在损失时间时进行。
profile-switch = 训练的部分
profile-part = { $of ->
        [fetch] 取数
        [step] 步
        [evaluation] 评估
       *[boundary] epoch 交界
    }
profile-whole = { $of ->
        [fetch] 取数时间
        [step] 步的时间
        [evaluation] 评估时间
       *[boundary] epoch 交界时间
    }
profile-in-short = { profile-whole }的 { PERCENT($share_ratio) } 花在 { $function } 的 { $line }{ KNOWN($calls) ->
        [yes] ，多在 { $calls } 中
       *[no] { "" }
    }。
profile-few = 目前只有 { COUNT($samples) } 次采样。
profile-none = 此时段内没有调用栈采样。rank 损失时间时会采样，平时约每分钟一次。
profile-none-read = 采样了 { COUNT($unread) } 次，但没有读到任何调用栈。
profile-basis = 随机时刻的 { COUNT($samples) } 次调用栈采样，{ ranks-named }{ KNOWN($from) ->
        [yes] ，{ $from } – { $to }
       *[no] { "" }
    }。
profile-unread = 全部采样中缺少 { PERCENT($unread_ratio) }：调用栈无法读取，或很少出现。
profile-picture = 采样到的调用栈的方块图。表格内容与之相同。用方向键在方块之间移动。
profile-box = { $name }{ KNOWN($where) ->
        [yes] { " " }{ $where }
       *[no] { "" }
    }：{ PERCENT($share_ratio) }，{ $states }
thread-state = { $state ->
        [running] 计算
        [runnable] 等待 CPU
        [disk] 等待磁盘
        [network] 等待网络
        [lock] 等待锁
        [pipe] 等待管道
        [child] 等待子进程
        [timer] 休眠
       *[waiting] 其他等待
    }
thread-state-share = { thread-state } { PERCENT($share_ratio) }
profile-line = 代码行
profile-share = { $interval ->
        [yes] 占比和 95%{ "\u00A0" }区间
       *[no] 占比
    }
profile-per = { $per ->
        [sample] 每个样本
        [step] 每步
        [boundary] 每次交界
       *[batch] 每个批次
    }
profile-without = 没有它，速度最多是现在的 { THREE_DIGITS($times) } 倍
profile-does = 在做什么
profile-calls = 多在
profile-own-code = 自身代码
profile-open = 显示其中 { COUNT($functions) } 个函数
profile-merge = 合并 { $module }
profile-share-of = 占{ profile-whole }的 { PERCENT($share_ratio) }：{ $states }。
profile-stack-samples = { COUNT($all) } 次采样中的 { COUNT($samples) } 次（{ PERCENT($share_ratio) }）
profile-no-stack = 它的调用栈不在最常见的之列。
profile-show-all = 显示全部 { COUNT($number) } 行
profile-show-first = 只显示前 { COUNT($number) } 行
profile-hint = 点击方块或代码行可查看其调用栈。
profile-rarer = 另有 { COUNT($stacks) } 个较少出现的调用栈。
