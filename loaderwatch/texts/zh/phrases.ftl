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
