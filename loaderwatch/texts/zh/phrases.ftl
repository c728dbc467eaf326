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
measured = （测量时长 { ROUGHLY($elapsed_s) }）
sample-name = { $stream ->
        [yes] 数据流中的第 { $sample } 个样本
       *[no] dataset[{ $sample }]
    }


dataset-name = { KNOWN($dataset) ->
        [yes] { $dataset }
       *[no] 数据集
    }
split-first = { $split ->
        [unknown] 先确认 __iter__ 用 torch.utils.data.get_worker_info() 划分数据。不划分的话，IterableDataset 的每个 worker
            都会读取全部样本，每个样本会由每个 worker 各给一遍。
        [missing] 先在 __iter__ 里用 torch.utils.data.get_worker_info() 划分样本。{ KNOWN($dataset) ->
                [yes] { $dataset }{ " " }
               *[no] 数据集
            }里没有这样做，所以{ $copies ->
                [1] 每个样本都会由每个 worker 各给一遍
               *[other] 每个样本现在已经重复出现 { $copies } 次，而且都计入了步数
            }。
       *[not-needed] { "" }
    }
flight-recorder-switches = 在作业的环境变量里设 TORCH_FR_BUFFER_SIZE=2000 TORCH_NCCL_DUMP_ON_TIMEOUT=1
    TORCH_FR_DUMP_TEMP_FILE=/some/folder/rank_（旧版 PyTorch 用 TORCH_NCCL_TRACE_BUFFER_SIZE 和 TORCH_NCCL_DEBUG_INFO_TEMP_FILE）
code-line = { $file }:{ $line }（{ $function }）
awaited = { $awaited ->
        [child] 一个子进程
        [pipe] 一个管道
        [network] 网络
       *[answer] 一个应答
    }
need-no-answer = 把这个调用放到后台线程、减少次数，或攒多条一次发送。日志、指标和上传不需要在下一步之前得到应答。保持连接不断开，并给每个连接设超时。如果一步需要应答（环境、服务），请在用当前应答之前就先请求下一个。
found-at-work =
    .cause = { KNOWN($worker) ->
            [yes] worker { $worker } { "" }
           *[no] 训练线程
        }当时在运行 { $line }，见其堆栈。
work-in-another-process = 把这项工作放进单独的进程（ProcessPoolExecutor、multiprocessing），或改用会释放 GIL 的代码（NumPy、PyTorch、编译库）。减少次数也有帮助；增加线程则没有。
phase-name = { $phase ->
        [wait] 等待
        [step] 训练步
        [forward] 前向
        [backward] 反向
        [optimizer] 优化器
        [teardown] 收尾
        [idle] 空闲
        [outside] 循环之外
       *[other] { $phase }
    }

## What the profile adds: the line with most samples ($at), and the library function that it calls. $state is what the thread does there most often.

sampled-line =
    .cause = { sampled-part }的 { PERCENT($share_ratio) } 在 { $at }{ KNOWN($calls) ->
            [yes] ，位于 { $calls }
           *[no] { "" }
        }：其中 { PERCENT($state_ratio) } { sampled-state }（{ $samples } 个样本）。
sampled-part = { $part ->
        [fetch] 读取时间
        [evaluation] 评估自身的时间
        [boundary] epoch 之间的时间
       *[step] 循环自身的时间
    }
sampled-state = { $state ->
        [running] 在运行
        [runnable] 在等 CPU
        [disk] 在等磁盘
        [network] 在等套接字
        [lock] 在等锁
        [pipe] 在等管道
        [child] 在等子进程
        [timer] 在休眠
       *[waiting] 在等待
    }
# $meaning and $advice are a known cost's, see known-costs.ftl.
sampled-known-cost =
    .cause = { $meaning }这占{ sampled-part }的 { PERCENT($share_ratio) }。
    .advice = { $advice }
