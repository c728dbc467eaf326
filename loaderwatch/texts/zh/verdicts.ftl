### 关于一次运行最先说的话：结论，以及对持续得比平时久的事情的提示。

## 由告警来说

as-written = { $text }
one-after-another = { $first }{ $next }
verdict-of-alert =
    .title = { $title }
    .advice = { $advice }
finished-with-alert =
    .title = 已结束。运行期间：{ $title }
    .advice = { $advice }
finished-before-forecast =
    .title = 已结束，预测的情况未出现：{ $title }
    .advice = { $advice }

## 没有人知道后来怎样

look-at-the-host = 检查主机是否在线、能否连到这台服务器。断连期间的记录存在它的磁盘上，连接恢复后会显示。
no-news =
    .title = 已有 { DURATION($silent_s) }没有消息：不知道训练是否还在继续。{ KNOWN($last) ->
            [yes] 最后一次收到消息时：{ $last }
           *[no] { "" }
        }
    .advice = { KNOWN($advice) ->
            [yes] { $advice }
           *[no] { "" }
        }{ look-at-the-host }
attempt-ended-unheard =
    .title = 没有记录表明这次尝试是怎么结束的：它的最后消息早于下一次尝试的开始。
    .advice = 看它日志的末尾：让它结束的原因也一并结束了旁边的 streamer，例如容器或主机没了。
server-cannot-store =
    .title = 这台服务器存不下这次运行发来的数据；训练照常进行，但这里显示的内容不再更新。
    .advice = 在这台服务器存放数据的地方腾出空间，或让它可写。原因：{ $reason }。什么都不用重启。这期间的数据暂存在运行所在的各台主机上，之后再发送。
stepped-aside =
    .title = 自身出错 { $faults } 次后，loaderwatch { KNOWN($rank) ->
            [yes] 在 rank { $rank } { $others ->
                [0] { "" }
               *[other] 和另外 { $others } 个 rank { "" }
            }上
           *[no] { "" }
        }退出了监视；训练照常进行，但不再受监视。
    .advice = 让训练继续：只是它的页面不再更新。重启作业后会重新监视。请把作业 stderr 里的那个错误作为 bug 报告给我们。

## 由数字来说

attach-the-loader = attach 训练循环所遍历的加载器：loaderwatch.attach(train_loader)。如果可迭代对象不是 DataLoader，请遍历 attach 的返回值：train_loader =
    loaderwatch.attach(train_loader)。完全没有加载器的训练，从 PyTorch 的优化器开始步进起，测量的是两步之间的时间。
finished-unmeasured =
    .title = 已结束。没有遍历过任何加载器：什么都没测到。
    .advice = { attach-the-loader }
unmeasured =
    .title = 还没有遍历过任何加载器：什么都没测到。
    .advice = { attach-the-loader }
every-process-finished = 已结束：所有训练进程都自行退出。
finished =
    .title = { every-process-finished }
healthy =
    .title = 正常：数据等待占每次迭代的 { PERCENT($wait_ratio) }；{ $ranks } 个 rank{ KNOWN($steps_per_s) ->
            [yes] ，每秒 { SPEED($steps_per_s) } 步
           *[no] { "" }
        }。
waits-unjudged =
    .title = 数据等待占每次迭代的 { PERCENT($wait_ratio) }；尚未构成告警。
warming-up =
    .title = 正在预热：步数太少，还不能下结论。
outside-loop =
    .title = 已在训练循环之外 { DURATION($age_s) }；到目前为止 { COUNT($steps) } 步。
few-steps-lately =
    .title = 最近训练步太少，不足以下结论；到目前为止 { COUNT($steps) } 步。
no-step-lately =
    .title = 最近 { WHOLE($within_s) } 秒没有完成任何训练步；到目前为止 { COUNT($steps) } 步。
too-short =
    .title = { $over ->
            [yes] { every-process-finished }
           *[no] 正在预热。
        }{ DURATION($elapsed_s) }中有 { PERCENT($wait_ratio) } 是数据等待{ KNOWN($start_ratio) ->
            [yes] ，另有 { PERCENT($start_ratio) } 是 epoch 启动
           *[no] { "" }
        }；诊断需要约 { DURATION($needed_s) }的训练步。
    .advice = { $much ->
            [yes] 让它多跑一会儿，或用 `loaderwatch doctor` 查看它的加载器设置。
           *[no] { "" }
        }

## 持续得比平时久的事情

training-or-rank = { KNOWN($rank) ->
        [yes] rank { $rank }
       *[no] 训练
    }
the-loader = { KNOWN($loader) ->
        [yes] { $loader }
       *[no] 它的加载器
    }
which-batch = { $of_loader ->
        [yes] { the-loader } 的
       *[no] { "" }
    }{ KNOWN($batch) ->
        [yes] 批次 { $batch }
       *[no] 下一个批次
    }
awaited-worker = { KNOWN($worker) ->
        [yes] ；worker { $worker } { $worker_is ->
            [dead] 已死
            [at-sample] 正在处理{ sample-name }
            [idle] 空闲
            [fetch] 正在读取
            [collate] 正在拼批
            [starting] 正在启动
           *[busy] 忙碌
        }
       *[no] { "" }
    }
batch-awaited =
    .title = { training-or-rank } 等{ which-batch }已有 { DURATION($age_s) }{ awaited-worker }；比平时久，尚未构成告警。
standing =
    .title = { training-or-rank } { $where ->
            [between-steps] 在两步之间
            [between-passes] 在两轮加载器遍历之间
            [outside] 在训练循环之外
            [before-first-batch] 在取第一个批次之前
            [iter] 在 { the-loader } 的 iter() 中
            [teardown] 在结束对 { the-loader } 的遍历
            [own-phase] { KNOWN($phase) ->
                [yes] 在它的阶段“{ $phase }”中
               *[no] 在自定义阶段中
            }
            [at-batch] 在处理{ which-batch }
           *[step] 在训练步 { $step }
        }，已持续 { DURATION($age_s) }{ KNOWN($line) ->
            [yes] ，位置 { $line }
           *[no] { "" }
        }；比平时久，尚未构成告警。
