### 作业终端里的行：来自 streamer、`loaderwatch run` 的监督进程和服务器。

job-line = loaderwatch: { $line }
watching-run = 正在观察 { $run } — 打开 { $url }

## streamer

server-away = { $url } { $how ->
        [answers] 返回 { $status }
        [unreachable] 无法连接（{ $reason }）
       *[away] { $reason }
    }
server-not-reached = { server-away }；请检查 LOADERWATCH_SERVER。这次运行的数据暂存在磁盘上，连上后再发送。
server-refuses = { $url } 拒收这次运行的数据（{ $status }：{ $reason }）；{ $move ->
        [token] 请把 LOADERWATCH_TOKEN 设为服务器的 agent 令牌
       *[address] 请检查 LOADERWATCH_SERVER 是否为 loaderwatch 服务器的地址
    }。数据暂存在磁盘上。
server-unproven = { $url } 未能证明它是你的 loaderwatch 服务器（{ $reason }），因此不会收到这次运行的任何数据。请把 LOADERWATCH_TOKEN
    设为该服务器的 agent 令牌；如果设置无误，说明监听该地址的是别的程序。这次运行的数据暂存在磁盘上。
server-rejects-part = { $url } 读不懂这次运行的部分数据（{ $status }：{ $reason }）；页面上会缺少这部分。如果服务器版本不同，请用当前版本重启它。
sent-unencrypted = 这次运行的调用栈、路径和令牌会以明文传到 { $url }：途经的任何人都能读到。请用 https（loaderwatch serve --ssl-certfile …），或设
    LOADERWATCH_REDACT=1，让路径和消息留在本机。
page-not-started = 无法启动页面：{ $why } — 这次运行的数据暂存在磁盘上，见 { $folder }
server-exit-code = 退出码 { $code }；见 { $log }
not-a-receipt = 不是回执：{ $error }
outbox-not-written = 无法写入 { $folder }（{ $why }）：等待发送给服务器的数据改存在共享内存里，超过 { $most_megabytes } MB 的部分会丢失并计数。请在那里腾出一些空间；不需要重启任何程序
addresses-not-told = 不会向这次运行给出的地址（attach(notify=)、LOADERWATCH_NOTIFY）发送消息：它的服务器不属于 { $data_dir }，或版本较旧，不接受通过网络传来的地址。
    请用 --notify 启动那台服务器，或把地址写进它的 config.toml

## 运行给出的地址

address-refused = { $why }。这次运行的消息不会发到那里
apprise-says-nothing = Apprise 没有说明原因
apprise-plugin-raised = 其 Apprise 插件抛出 { $error }：{ $said }

## 主机为什么没有 GPU 图表

gpu-charts-off = { $why ->
        [no-driver] 本机没有 NVIDIA 驱动
        [driver-fails] NVIDIA 驱动无法工作（{ $error }）
        [reading-fails] 读取 NVIDIA 驱动失败（{ $error }）
        [no-gpu] NVIDIA 驱动没有向此进程显示任何 GPU
        [gpu-fails] GPU { $gpu }：{ $error }
       *[no-answer] GPU 没有响应
    }：GPU 图表已关闭，等待时间在训练循环里测得

## 进程为什么没有调用栈

no-stack = { $why ->
        [unregistered] 进程没有注册堆栈信号
        [stopped] 进程已停止（状态 { $state }），无法响应
        [traced] 有调试器连着：信号会让进程在调试器里停下
        [no-handler] 进程没有信号 { $signal } 的处理函数：没有发送
        [uninterruptible] 进程处于不可中断的等待（状态 D，{ $wchan }），无法响应
       *[no-answer] 进程 1 秒内没有响应（状态 { $state }）
    }

## 监督进程

supervisor-fault = loaderwatch 自身出错（{ $error }）：作业照常进行，但不再有重启和告警
job-not-started = 无法启动作业：{ $error }
hang-saved = 已保存 { $file }
job-is-ended = { $finding }已持续至少 { PLAIN($after_s) } 秒：结束作业
processes-live-on = 无法终止进程 { $pids }，因此不再启动作业
job-restarts = { PLAIN($pause_s) } 秒后第 { $restart } 次重启（最多 { $restarts } 次）：重新运行同一条命令
hangs-again = 作业再次卡死，且重启次数已达上限：不再处理，保持原样
no-fresh-stacks = 没有取到 { $run } 的最新调用栈：{ $error }
no-recording = 没有取到 { $run } 的录制文件：{ $error }
on-alert-exhausted = --on-alert 已为本作业运行 { $most } 次，不再运行
on-alert-failed = --on-alert { $command } { $how ->
        [not-started] 无法启动：{ $error }
        [late] 运行 { PLAIN($after_s) } 秒后被强制终止
        [signal] 被信号 { $number } 终止
       *[code] 失败，退出码 { $number }
    }{ KNOWN($said) ->
        [yes] ：{ $said }
       *[no] { "" }
    }
alerts-not-seen = 看不到本作业的告警：{ $why }。作业照常进行
no-server-here = 没有服务器在运行
no-proven-server = 没有服务器能证明它属于你：请设置 LOADERWATCH_TOKEN
viewer-refused = { $reason }：请把 LOADERWATCH_PAGE_TOKEN 设为该服务器的 viewer 令牌或 owner 令牌

## 服务器启动时

page-is-at = loaderwatch: 页面地址 { $url }
others-reach-server = loaderwatch: 正在监听 { $host }：其他机器可以访问本服务器，{ $encrypted ->
        [yes] 走 TLS
       *[no] 走明文 http；参见 --ssl-certfile
    }
trainers-elsewhere = loaderwatch: 其他机器上的训练：LOADERWATCH_SERVER={ $url } LOADERWATCH_TOKEN={ $token }
server-will-leave = loaderwatch: 如果 { $idle }内没有运行上报、也没有人查看，本服务器就会退出
idle-time = { KNOWN($hours) ->
        [yes] { PLAIN($hours) } 小时
       *[no] { PLAIN($seconds_s) } 秒
    }
everyone-is-let-in = loaderwatch: --no-auth：任何能访问此地址的人都能看到所有运行
