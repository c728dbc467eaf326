### 会用尽的东西：内存、文件描述符、共享内存、存放检查点的磁盘，以及就绪的批次。

process-name = { KNOWN($rank) ->
        [yes] { KNOWN($worker) ->
            [yes] rank { $rank } 的 worker { $worker }
           *[no] rank { $rank } 的训练进程
        }
       *[no] { KNOWN($worker) ->
            [yes] worker { $worker }
           *[no] 训练进程
        }
    }（pid { $pid }）
forecast-basis = 预测依据：{ DURATION($seen_s) }的训练、{ $steps } 步：逐步比较，

## 内存

memory-runs-out =
    .title = 内存约 { DURATION($eta_s) }后用尽：{ memory-of }还剩 { SIZE($left_bytes) }，{ $grows ->
            [workers] { $workers } 个 worker 占用的内存
           *[training] 训练进程占用的内存
        }每秒增长 { SIZE($growth_bytes) }{ KNOWN($sample_bytes) ->
            [yes] （每个样本 { SIZE($sample_bytes) }）
           *[no] { "" }
        }。
    .cause = { forecast-basis }{ process-name }占用的内存的最低值从 { SIZE($first_bytes) } 升至 { SIZE($last_bytes) }。{ $kept ->
            [copied] fork 出来的 worker 与训练进程共享数据集的内存，直到碰到它为止。
                读一个 Python 对象就会改它的引用计数，于是该对象所在的内存页会被复制到这个 worker。
            [by-worker] 某个 worker 每读一个样本都留下一些内存：没有上限的缓存、没关的文件，或有泄漏的解码器。
           *[by-loop] 训练循环留着本该释放的内存：存进列表的批次、带着计算图的 loss（用 .item()）、itertools.cycle(loader)。
        }{ $epoch_ends ->
            [with-workers] epoch 更早结束，在 { DURATION($epoch_s) }后，它的 worker 也随之退出。
            [with-cache] epoch 更早结束，在 { DURATION($epoch_s) }后。如果数据集会缓存样本，届时缓存已填满。
           *[later] { "" }
        }没有空闲内存时，内核会杀掉某个 worker；在那之前页缓存会缩小，读取会变慢。
    .advice = { $grows ->
            [workers] 元数据放进 NumPy 数组、Arrow 或一整块序列化缓冲区，不要用 Python list 和 dict。
                给数据集里的每个缓存设上限，并关闭文件。减少 worker{ KNOWN($num_workers) ->
                    [yes] （现为 { $num_workers }）
                   *[no] { " " }
                }只能拖延。{ $persistent ->
                    [yes] 设 persistent_workers=False，会在每个 epoch 结束时释放这些内存。
                   *[no] { "" }
                }
           *[training] 只留数字，不留张量：loss 用 .item()，必须留的部分用 .clone()。用 `for batch in loader` 代替 itertools.cycle。
        }
memory-of = { $of ->
        [container] 容器内存限额
       *[host] 主机内存
    }

## 文件描述符

descriptors-run-out =
    .title = { KNOWN($worker) ->
            [yes] { KNOWN($rank) ->
                [yes] rank { $rank } 的 worker { $worker }
               *[no] worker { $worker }
            }{ " " }
           *[no] { KNOWN($rank) ->
                [yes] rank { $rank }{ " " }
               *[no] 训练
            }
        }约 { DURATION($eta_s) }后将用尽文件描述符：上限 { WHOLE($limit) }，已打开 { WHOLE($open) }。
    .cause = { forecast-basis }该进程打开的描述符的最低值从 { WHOLE($first) } 升至 { WHOLE($last) }。{ KNOWN($per_step) ->
            [yes] 约每步 { DECIMAL($per_step) } 个。
           *[no] { "" }
        }{ KNOWN($worker) ->
            [yes] 数据集在这个 worker 里打开了文件或连接却没有关闭。
           *[no] 来自 worker 的每个张量只要还在，就占用一个文件描述符，所以很可能是循环一直留着批次。
        }
    .advice = { KNOWN($worker) ->
            [yes] 关闭 __getitem__ 打开的每个文件（`with open(…)`、image.close()），或让每个 worker 持有的句柄数有上限。
                调大 `ulimit -n` 只是拖延。
           *[no] 不要保留批次或其中的一部分：放进列表的值先 .clone() 或 .item()。如果批次还在堆积，
                调高 `ulimit -n` 或用 torch.multiprocessing.set_sharing_strategy('file_system') 只是拖延。
        }

## /dev/shm

shared-memory-fills-up =
    .title = /dev/shm 约 { DURATION($eta_s) }后写满：共 { SIZE($total_bytes) }，还剩 { SIZE($left_bytes) }，占用每秒增长 { SIZE($growth_bytes) }。
    .cause = { forecast-basis }/dev/shm 占用的空间的最低值从 { SIZE($first_bytes) } 升至 { SIZE($last_bytes) }。预取的批次最多需要 { SIZE($needed_bytes) }，
        所以是循环留着来自 worker 的批次，或有其他程序在那里写入。写满后，worker 会因 bus error 退出，或者加载器报 “unable to write to file”。
    .advice = 不要保留批次或其中的一部分：放进列表的值先 .clone() 或 .item()。`ls -lS /dev/shm` 能看到其他程序留下的文件。
        调大 /dev/shm（docker run --shm-size、--ipc=host）只是拖延。
shared-memory-too-small =
    .title = { $fits ->
            [yes] /dev/shm 快不够了：预取的批次可能要用 { SIZE($needed_bytes) }，总共 { SIZE($total_bytes) }。
           *[no] /dev/shm 装不下预取的批次：最多需要 { SIZE($needed_bytes) }，总共 { SIZE($total_bytes) }。
        }
    .cause = worker 把批次放进 /dev/shm：每个加载器 prefetch_factor × num_workers 个批次，再加正在用的一个。合起来是 { $needs }。
        /dev/shm 当前已占用：{ KNOWN($used_ratio) ->
            [yes] { PERCENT($used_ratio) }
           *[no] 未知
        }。写满后，worker 会因 bus error 退出，或者加载器报 “unable to write to file”。
    .advice = 给容器至少 { SIZE($enough_bytes) }（docker run --shm-size、--ipc=host；Kubernetes 里在 /dev/shm 挂 medium: Memory 的 emptyDir），
        或者{ KNOWN($prefetch_factor) ->
            [yes] 把 { $loader } 的 prefetch_factor 设为 { $prefetch_factor }（现为 { $prefetch_factor_now }）。
           *[no] 调低 { $loader } 的 num_workers（现为 { $num_workers }）或批大小。
        }
loader-needs = { KNOWN($rank) ->
        [yes] { "rank " }{ $rank } 上的 { $loader }
       *[no] { $loader }
    } { $batches } × { SIZE($batch_bytes) }

## 存放检查点的磁盘

disk-fills-up =
    .title = { $path } 所在磁盘约 { DURATION($eta_s) }后写满：还剩 { SIZE($left_bytes) }，{ KNOWN($saves) ->
            [yes] 只够 { $saves } 次保存，每次 { SIZE($save_bytes) }。
           *[no] 任务每秒写入 { SIZE($growth_bytes) }。
        }
    .cause = { disk-cause }
    .advice = { disk-advice }
checkpoint-does-not-fit =
    .title = { $path } 所在磁盘装不下下一次保存：需要 { SIZE($save_bytes) }，只剩 { SIZE($left_bytes) }。
    .cause = { disk-cause }
    .advice = { disk-advice }
disk-cause = 预测依据：训练进程在 { DURATION($seen_s) }内对这块磁盘的写入。可用空间随其写入不断创新低，而写入的内容没有被删除。
disk-advice = 现在就腾出空间。少留几个检查点：transformers 用 save_total_limit=2，Lightning 用 save_top_k，或每次保存后删掉最旧的。
    存不下时训练会以 “No space left on device” 终止，还可能留下损坏的文件。

## 为循环准备好的批次

fetches-get-slower =
    .title = { KNOWN($rank) ->
            [yes] { "rank " }{ $rank } 上 { $loader }
           *[no] { $loader }
        } 的取数越来越慢：{ DURATION($ago_s) }内每个批次 { DURATION($before_s) } → { DURATION($fetch_s) }；约 { DURATION($eta_s) }后{ $waits ->
            [gpu] { " " }GPU 会缺数据
           *[loop] 循环要等数据
        }。
    .cause = 所有 worker 合起来每 { DURATION($each_s) }交付一个批次，一步耗时 { DURATION($step_s) }：循环留给 worker 的时间已用掉 { PERCENT($load_ratio) }。
        取数时间稳步上升，而每步的时间没有。
    .advice = 查找数据集里随每个样本增长的东西：要查找的列表、每次从头读的文件、变差的缓存或连接。
        否则检查是否有其他程序越来越多地占用存储或 CPU。目前还没有损失时间。
read-ahead-used-up =
    .title = { KNOWN($rank) ->
            [yes] { "rank " }{ $rank } 上 { $loader }
           *[no] { $loader }
        } 的就绪批次正在耗尽：{ DURATION($ago_s) }内 { RATE($before) } → { RATE($ready) } 个；约 { DURATION($eta_s) }后循环要等数据。
    .cause = { $workers } 个 worker 合起来每 { DURATION($each_s) }交付一个批次，而循环每 { DURATION($iteration_s) }取走一个。
    .advice = 降低样本的读取开销，或在有空闲 CPU 时增加 worker。worker 的取数时间会显示原因。目前还没有损失时间。
gpu-work-used-up =
    .title = { gpu-of-rank } 约 { DURATION($eta_s) }后会缺数据：它排队的工作与就绪的批次在 { DURATION($ago_s) }内从 { DURATION($before_s) }降到 { DURATION($left_s) }。
    .cause = { headroom-cause }
    .advice = { headroom-advice }
loader-barely-keeps-up =
    .title = 加载器只是勉强跟上：请求下一个批次时，{ gpu-of-rank } 还剩 { DURATION($left_s) }的工作，没有就绪的批次。
    .cause = { headroom-cause }
    .advice = { headroom-advice }
gpu-of-rank = { KNOWN($rank) ->
        [yes] { "rank " }{ $rank } 的 GPU
       *[no] GPU
    }
headroom-cause = { $slower ->
        [yes] worker 取一个批次现在要 { DURATION($fetch_s) }，之前是 { DURATION($fetch_before_s) }。
       *[no] 批次到来的速度只与 GPU 消耗的速度相当，每 { DURATION($iteration_s) }一个。
    }到目前为止，GPU 有 { PERCENT($lacked_ratio) } 的时间缺数据。
headroom-advice = 增加 worker，或降低样本的读取开销。如果取数在变慢，查清原因。目前还没有损失时间。
