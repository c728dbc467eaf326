### 各命令打印的内容（发现、结论和建议之外）。

## 一次运行

run-state = { $state ->
        [live] 运行中
        [finished] 已完成
        [hung] 卡死
        [crashed] 已崩溃
        [lost] 失去联系
        [stopped] 已停止
       *[other] { $state }
    }
rank-count = { $ranks } 个 rank
after-steps = { KNOWN($steps) ->
        [yes] ，{ $steps } 步
       *[no] { "" }
    }
run-described = { $name }（{ $run_id }），{ rank-count }，{ run-state }{ KNOWN($attempt) ->
        [yes] ，第 { $attempt } 次尝试，共 { $attempts } 次
       *[no] { "" }
    }{ after-steps }
run-recorded = { $name }（{ $run_id }），录制在 { $file }
run-redacted = { $name }（{ $run_id }）
run-audited = { $name }（{ $run_id }），{ run-state }
run-compared = { $which }{ "  " }{ $name }（{ $run_id }），{ rank-count }，{ run-state }{ after-steps }，比较了 { WHOLE($seconds_s) } 秒

## 发现和建议

severity = { $severity ->
        [critical] 严重
        [warning] 警告
       *[info] 提示
    }
nothing-found = 没有发现问题：没有数据停顿，没有代价高的 epoch 边界，也没有卡死。
no-alert-raised = 服务器没有发出告警。它只对收到的数据即时判断；--hang-after 30 会重新判断整次运行，包括迟到的数据。
finding-titled = { "[" }{ severity }] { $title }
finding-facts = { $kind }，{ $state ->
        [firing] 触发中
        [acknowledged] 已确认
        [silenced] 已静音
       *[resolved] 已解除
    }{ KNOWN($lost_s) ->
        [yes] ，损失 { DECIMAL($lost_s) } 秒
       *[no] { "" }
    }{ KNOWN($gain_percent) ->
        [yes] ，最多可省{ $gain_of ->
            [run] 整次运行时间
           *[finding] 持续期间的时间
        }的 { WHOLE($gain_percent) }%
       *[no] { "" }
    }
labelled = { $label ->
        [cause] 原因
        [advice] 建议
        [why] 原因
       *[change] 改为
    }：{ $text }
printed-evidence = { $label }：{ $value }
value-unknown = 未知
value-with-unit = { $number } { $unit ->
        [per_s] /秒
        [bytes] 字节
       *[s] 秒
    }
process-or-worker = { KNOWN($worker) ->
        [yes] worker { $worker }
       *[no] 训练进程
    }
stack-head = rank { $rank } 的调用栈，{ process-or-worker }，pid { $pid }：
stack-frame = 文件 "{ $file }"，第 { $line } 行，{ $function }
more-frames = …… 还有 { $more } 个

## analyze --what-if：加载器的其他设置

no-other-settings = 没有给出其他设置：需要一个用于训练的 DataLoader、至少八个测量过的批次，以及一个等待 worker 的循环。
settings-basis = rank { $rank } 的 { $name }：现在每秒 { RATE($measured_per_s) } 个批次。用最近 { $fetches } 个批次推演
    （读取一个 { DURATION($fetch_s) }，一步 { DURATION($step_s) }）{ KNOWN($cpus) ->
        [yes] ，共用 { RATE($cpus) } 个 CPU
       *[no] { "" }
    }。前提是存储给更多读取者的速度和现在一样。{ KNOWN($free) ->
        [yes] { free-in }中还有 { $free } 可用。
       *[no] { "" }
    }
free-in = { $free_in ->
        [memory] 内存
       *[other] { $free_in }{ " " }
    }
setting-played = 批次/秒（{ RATE($least_per_s) } 到 { RATE($most_per_s) }）{ KNOWN($saved_percent) ->
        [yes] ，节省 { WHOLE($saved_percent) }%
       *[no] { "" }
    }{ KNOWN($ahead) ->
        [yes] ，预读 { $ahead }
       *[no] { "" }
    }{ $beyond ->
        [yes] ，超过{ free-in }的可用空间
       *[no] { "" }
    }{ $is_today ->
        [yes] ，现在
       *[no] { "" }
    }{ $is_knee ->
        [yes] ，已达最佳
       *[no] { "" }
    }
option-saves = { $saves ->
        [nothing] 没有节省
        [costs] 最多多花 { WHOLE($cost_percent) }%
        [between] 节省 { WHOLE($least_percent) }% 到 { WHOLE($most_percent) }%{ of-an-epoch }
       *[about] 节省 { WHOLE($most_percent) }%{ of-an-epoch }
    }
of-an-epoch = { KNOWN($per_epoch_s) ->
        [yes] ，每个 epoch 最多 { DURATION($per_epoch_s) }
       *[no] { "" }
    }

## compare

comparison-note = 注意：{ $note }
settings-differ = 不同的设置：
no-setting-differs = 已知的设置没有差别。
setting-changed = { $where } { $what }：{ $a } → { $b }
comparison-columns = 变化（95%）
measured-value = { $number } { $unit ->
        [per_s] /秒
       *[s] 秒
    }
measured-change = { $change }{ $is_points ->
        [yes] { " " }个百分点
       *[no] { "" }
    }{ KNOWN($low) ->
        [yes] （{ $low } 到 { $high }）
       *[no] { "" }
    }
condition-failed = 失败：{ $condition }：{ $measure } { KNOWN($value) ->
        [yes] 为 { $value }
       *[no] 未知
    }

## doctor

nothing-to-change = 不需要改。
advice-titled = { "[" }{ severity }] { $check }{ KNOWN($where) ->
        [yes] （{ $where }）
       *[no] { "" }
    }：{ $what }
script-audited = { $script }{ KNOWN($usable_cpus) ->
        [yes] ，可用 CPU { PLAIN($usable_cpus) } 个（共 { $cpus } 个）
       *[no] { "" }
    }，torch { $torch }，Python { $python }
loader-audited = { $name }（{ $role }{ KNOWN($made_at) ->
        [yes] ，{ $made_at }
       *[no] { "" }
    }）：{ $dataset_class } 的 { $loader_class }{ KNOWN($samples) ->
        [yes] ，{ COUNT($samples) } 个样本
       *[no] { "" }
    }{ KNOWN($batch) ->
        [yes] ，批次 { $batch }
       *[no] { "" }
    }，{ $workers } 个 worker{ KNOWN($start_method) ->
        [yes] （{ $start_method } 方式）
       *[no] { "" }
    }{ KNOWN($fetch_s) ->
        [yes] ，加载一个批次约需 { DURATION($fetch_s) }
       *[no] { "" }
    }{ KNOWN($able_per_s) ->
        [yes] ，所以最多约 { RATE($able_per_s) } 批次/秒
       *[no] { "" }
    }
script-wants-torchrun = 它需要 torchrun 的环境：loaderwatch doctor --ranks 2（训练用几个就写几个）...
script-wants-arguments = 它的参数跟在名称后面：loaderwatch doctor { $script } ARGS
script-stood-at = 当时停在（最近的调用在最前）：

## runs

no-runs-yet = 还没有任何运行。在训练脚本里加上 `loaderwatch.attach(train_loader)`，然后启动它。
runs-columns =
    .run = 运行
    .name = 名称
    .state = 状态
    .started = 开始
    .seen = 最近上报
    .ranks = rank 数
    .attempts = 尝试次数
    .steps = 步数
    .verdict = 结论
no-server-is-up = 没有服务器在运行；下一次运行会启动一个，也可以执行 `loaderwatch serve`。
server-is-at = 服务器：{ $url }
server-is-up = 服务器：{ $url }（pid { $pid }，{ $data_dir }），{ $started_at } { $started_by ->
        [hand] 手动启动
        [run] 由一次运行启动
        [demo] 由演示启动
       *[other] 启动
    }；{ KNOWN($leaves_at) ->
        [yes] 若到 { $leaves_at } 一直没有运行上报、也没有人查看，就自动退出
       *[no] 一直运行
    }。

## stop 和 token

no-server-to-stop = { $data_dir } 没有服务器在运行：不需要停止。
server-has-ended = { $url }{ KNOWN($pid) ->
        [yes] （pid { $pid }）
       *[no] { " " }
    }上的服务器已停止。它的运行数据仍保留在 { $data_dir }。
another-server-starts = { $runs } 正在上报，会在一分钟内再启动一个服务器。
tokens-written = 新令牌在 { $file }
tokens-for-next-server = 这里现在没有服务器在运行；下一个会用新令牌
tokens-taken = { $url } 上的服务器已拒绝旧令牌；其他机器上的训练进程需要新的 agent 令牌

## stacks

process-of-rank = rank { $rank }，{ process-or-worker }（pid { $pid }）
no-stack-came = 没有取到调用栈
stack-not-answered = { process-of-rank }：{ PLAIN($within_s) } 秒内没有应答；它最近一份调用栈取自 { $taken_at }

## 剖析，见 stacks --profile 和 analyze

profile-part = { $of ->
        [step] 步
        [evaluation] 评估
        [boundary] epoch 边界
       *[fetch] 取数
    }
profile-headline = { profile-part }：{ KNOWN($seconds_s) ->
        [yes] { WHOLE_DURATION($seconds_s) }内
       *[no] { "" }
    }{ KNOWN($rank) ->
        [yes] { " " }rank { $rank }
       *[no] { " " }{ $ranks } 个 rank
    } 的 { COUNT($samples) } 次采样：{ profile-states }
profile-heading = 损失的时间花在哪里（按采样的调用栈）：
profile-state = { $state ->
        [running] 运行
        [runnable] 等 CPU
        [disk] 等磁盘
        [network] 等网络
        [lock] 等锁
        [pipe] 等管道
        [child] 等子进程
        [timer] 睡眠
       *[waiting] 其他等待
    } { PERCENT($share_ratio) }
profile-states = { $states }
profile-columns =
    .share = 占比
    .interval = 95%
    .each = 用时
    .line = 代码行 → 调用的库函数，以及在做什么
profile-interval = { WHOLE($low_percent) }–{ WHOLE($high_percent) }%
profile-each = { DURATION($each_s) }/{ $unit ->
        [sample] 样本
        [step] 步
       *[batch] 批次
    }
profile-without-line = 没有它，速度最多是现在的 { DECIMAL($times) } 倍
profile-rest = 其余：{ PERCENT($rest_ratio) }{ $more ->
        [0] { "" }
       *[other] ，另有 { $more } 行代码
    }。
profile-unread = 另有 { COUNT($unread) } 次采样没有调用栈：当时读不到该进程，或这个调用栈很少见。
profile-few = 采样少于 { $fewest } 次：这些占比只是大概。rank 损失时间时会继续采样。
profile-empty = { profile-part }：没有采到调用栈。可能这里没有损失时间，可能这次运行早于剖析功能，也可能 loaderwatch 无权读取这些进程。
    可用 --of 查看其他部分。{ permit-reading }
profile-unreadable = { profile-part }：{ COUNT($unread) } 次采样都没有调用栈：loaderwatch 无权读取这些进程。{ permit-reading }
permit-reading = 要允许读取，请把 kernel.yama.ptrace_scope 设为 1 或 0；在容器里则加上 SYS_PTRACE 权限。
profile-written = { $file }：{ COUNT($samples) } 次采样

## export 和 import

run-exported = { $file }：{ $kilobytes } kB；{ $redacted ->
        [yes] 路径、参数、消息和主机名已替换；函数、类、加载器和阶段的名称没有替换
       *[no] 文件里含有这次运行的路径、参数、主机名和调用栈；用 --redact 可以替换掉
    }
run-imported = { $run }：已导入，{ DURATION($seconds_s) }的训练
run-is-there = { $run }：已存在，内容相同
file-lies-there = { $run }：已在那里
file-not-imported = loaderwatch：{ $file }：未导入：{ $why }

## notify

notify-test =
    .title = loaderwatch 测试消息
    .body = 这是来自 { $host } 的测试消息，由 `loaderwatch notify test` 发出。运行的告警也会这样送达。
notify-tested = { $number } { $address }（来自 { $source }）：{ KNOWN($why) ->
        [yes] 未送达：{ $why }
       *[no] 已送达
    }
keys-are-open = loaderwatch：其他用户能读 { $file }，包括其中的密钥；请执行 chmod 600 { $file }

## run 和 tune

starts-as-tuned = loaderwatch：{ $loader }（{ $made_at }）这次以 { $setting } 启动，由 loaderwatch tune 找到；只此一次：写进脚本才会保留
tuning-columns =
    .workers = num_workers
    .speed = 批次/秒
    .start = 第一个批次
    .memory = 内存
tuning-marks = ← { $mark ->
        [both] 现在，建议
        [now] 现在
       *[advised] 建议
    }
tuning-with-steps = 批次之间的训练步为 { DURATION($step_s) } 时：
tuning-trial = { $setting }：{ RATE($batches_per_s) } 批次/秒{ KNOWN($wait_percent) ->
        [yes] ，{ WHOLE($wait_percent) }% 的时间在等待
       *[no] { "" }
    }
nothing-tried = 没有可以尝试的设置。
setting-is-smallest = 不需要改：num_workers={ $workers } 已是满足要求的最小设置。
use-setting = 改用 DataLoader(…, { $setting })：每秒 { RATE($then_per_s) } 个批次，现在是 { RATE($now_per_s) } 个。
tuning-failed = 搜索提前结束：{ $why }。
tuning-stopped = 搜索结束：{ $why }。
step-not-given = 用 --step-ms 给出一个训练步的耗时，就能找到跟得上它的最小设置。
no-setting-to-keep = 没有可用于下一次运行的设置。
setting-is-kept = 下一次对 { $script } 执行 `loaderwatch run` 时以 { $setting } 启动。

## 搜索为何结束，以及略去了什么

time-was-up = 时间已用完
no-gain-by-workers = 再加 worker 也没有更快
stopped-by-you = 你中止了搜索
no-room-in-memory = { $workers } 个 worker 会占用 { $free_gb } GB 空闲内存中的 { $wanted_gb } GB
no-room-for-batches = { $workers } 个 worker、prefetch_factor={ $prefetch } 会占用 { $batches_gb } GB 的批次，而 { $folder } 只剩 { $free_gb } GB
no-room-for-files = { $workers } 个 worker 会占掉本进程可打开的 { $limit } 个文件中的大部分
stream-is-not-split = 每个 worker 都会读完整个数据流：dataset 没有做切分，因此最多只试了一个 worker。
