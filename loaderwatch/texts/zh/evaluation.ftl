### 等待数据或占用大量时间的评估，以及耗时超过 sample_timeout 的样本。

evaluation-of = { KNOWN($rank) ->
        [yes] { "rank " }{ $rank } 的评估
       *[no] 评估
    }

evaluation-waits =
    .title = { evaluation-of }有 { PERCENT($wait_ratio) } 的时间在等数据，占整个运行的 { PERCENT($run_ratio) }（{ $loader }）：{ $because }。
    .cause = { $passes } 次评估至今用了 { DURATION($evaluating_s) }；其中 { DURATION($lost_s) }是循环在等 { $loader }。
        评估期间训练停着；训练用的加载器另行诊断。{ $cause }
    .advice = 调整评估用的加载器 { $loader }：{ PER_BATCH($advice) }

evaluation-workers-restart =
    .because = 每次评估都重新启动 { $workers } 个 worker，再等 { DURATION($each_s) }才有第一个批次
    .cause = 等待的 { PERCENT($start_ratio) } 花在 iter(loader) 和每次评估的第一个批次上：它的 { $workers } 个 worker 要启动、
        导入数据集所需的模块，评估一完就退出。
    .advice = 设 persistent_workers=True，并保留 DataLoader，不要每次评估都新建。如果一次评估只有少量批次，就少用几个 worker：启动更快。

evaluation-computes =
    .title = { evaluation-of }占用本次运行 { PERCENT($run_ratio) } 的时间（{ $loader }）：{ $passes } 次，每次 { DURATION($each_s) }。
    .cause = 评估有 { PERCENT($wait_ratio) } 的时间在等数据；其余是计算。评估期间训练停着。
    .advice = 如果这并非本意，降低评估频率，减少样本，或在另一个进程里用检查点评估。如果评估会生成文本，请限制长度、保留 KV 缓存，
        并确认生成会在结束符处停止。

## 耗时过长的样本

sample-timeout =
    .title = { KNOWN($rank) ->
            [yes] { "rank " }{ $rank }：
           *[no] { "" }
        }{ KNOWN($loader) ->
            [yes] { $loader }{ " " }
           *[no] 某个加载器
        }{ $outcome ->
            [left-out] 跳过了
           *[gave-up] 放弃了
        } { $samples } 个样本，耗时都超过 { DURATION($limit_s) }{ KNOWN($which) ->
            [yes] ：{ $which }
           *[no] { "" }
        }。
    .cause = attach(sample_timeout={ $timeout }) 中断了这些样本的读取{ $reading ->
            [one] （由 worker { $readers } 读取）
            [several] （由 worker { $readers } 读取）
           *[loop] { "" }
        }。{ $outcome ->
            [left-out] 它们所在的批次不含这些样本，所以模型没有见过它们。
           *[gave-up] { $skipped } 个样本被跳过，其余抛出 SampleTimeout。
        }
    .advice = 在任务日志里查看每个慢样本停在哪一行。单独读一下这样的样本，修好或移除它。如果它只是需要更久，调大 sample_timeout。
sample-seen = { $sample }（{ $times } 次）
and-more = 另外 { $number } 个
longer-list = { $first }、{ $others }
