### 多条消息共用的短语。

on-rank = { KNOWN($rank) ->
        [yes] { " " }rank { $rank } 上
       *[no] { "" }
    }
of-rank = { KNOWN($rank) ->
        [yes] { "rank " }{ $rank } 的
       *[no] { "" }
    }
who = { $who ->
        [training] 训练
        [one] rank { $ranks }
        [both] 两个 rank
        [all] 全部 { $world } 个 rank
       *[several] rank { $ranks }
    }
measured = （{ ROUGHLY($elapsed_s) }内的测量）
sample-name = { $stream ->
        [yes] 其流中的样本 { $sample }
       *[no] dataset[{ $sample }]
    }

joined = { $before }{ $because }。

code-line = { $file }:{ $line }（{ $function }）
awaited = { $awaited ->
        [child] 一个子进程
        [pipe] 一个管道
        [network] 网络
       *[answer] 一个应答
    }
need-no-answer = 放到后台线程去做、减少次数，或者攒多条一起做：日志、指标和上传不需要在下一步之前得到应答。保持连接不断开，并给每个连接设超时。如果一步必须用到某个环境或服务，请在用当前应答之前就先请求下一个。
found-at-work =
    .cause = { KNOWN($worker) ->
            [yes] worker { $worker } { "" }
           *[no] 训练线程
        }工作时停在 { $line }，见其堆栈。
