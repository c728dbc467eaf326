### 训练进程的死亡：因加载器、磁盘写满、某个样本，或原因不明；以及脚本捕获的错误。

training-died = { KNOWN($rank) ->
        [yes] rank { $rank }{ " " }
       *[no] 训练
    }异常退出：{ $because }。

## 用尽的资源

shared-memory-full =
    .because = /dev/shm 已满
    .cause = worker 通过共享内存交付批次。{ KNOWN($shm_bytes) ->
            [yes] 它的容量为 { SIZE($shm_bytes) }。
           *[no] { "" }
        }{ KNOWN($batch_bytes) ->
            [yes] 其中最多同时放着 { $ahead } 个批次，每个 { SIZE($batch_bytes) }。
           *[no] { "" }
        }
    .advice = 给容器更大的 /dev/shm：docker run --shm-size=8g 或 --ipc=host；Kubernetes 中把 medium: Memory 的 emptyDir 挂到那里。
        或者调小 prefetch_factor、num_workers 或批次大小。
descriptors-exhausted =
    .because = 文件描述符用尽
    .cause = 来自 worker 的每个张量，只要还存活就占着一个文件描述符。{ KNOWN($open) ->
            [yes] 训练进程最后一次读数为已打开 { WHOLE($open) } 个{ KNOWN($limit) ->
                [yes] ，上限 { WHOLE($limit) } 个
               *[no] { "" }
            }。
           *[no] { "" }
        }
    .advice = 不要留存批次：放进列表的东西先 .clone() 或 .item()。调高 `ulimit -n`，或使用 torch.multiprocessing.set_sharing_strategy('file_system')。
worker-descriptors-exhausted =
    .because = worker { $worker } 文件描述符用尽
    .cause = 数据集在这个 worker 里打开了文件或连接却没有关闭。最后一次读数为上限 { WHOLE($limit) } 个中已打开 { WHOLE($open) } 个，因此没能交出批次。
    .advice = 关闭 __getitem__ 打开的东西（`with open(…)`、image.close()），或让每个 worker 持有的句柄数有上限。调大 `ulimit -n` 只是拖延。
disk-full =
    .because = { KNOWN($path) ->
            [yes] { $path } 所在的磁盘
           *[no] 某个磁盘
        }{ $sure ->
            [yes] { "" }
           *[no] 似乎
        }已满，要保存的内容写不进去
    .cause = { $cut ->
            [yes] torch.save 没能把文件写完。
           *[no] 训练进程正在写文件，剩余部分没有空间可写。
        }{ KNOWN($left_bytes) ->
            [yes] 最后一次查看时还剩 { SIZE($left_bytes) }。
           *[no] { "" }
        }
    .advice = 少留几个检查点（transformers 用 save_total_limit=2，Lightning 用 save_top_k，或每次保存后删掉最旧的），或者现在就腾出空间。
        存不下时训练会以 “No space left on device” 终止，还可能留下损坏的文件。恢复训练前，先检查最新的那个文件。

## 被信号终止的进程

dead-process = { $process ->
        [training] 训练进程
       *[worker] { KNOWN($worker) ->
            [yes] worker { $worker }
           *[no] 一个 worker
        }{ KNOWN($pid) ->
            [yes] （pid { $pid }）
           *[no] { " " }
        }
    }
that-sample = { $stream ->
        [yes] { "" }
       *[no] { " " }
    }{ sample-name }
was-reading = { KNOWN($sample) ->
        [yes] 当时它正在读{ that-sample }。
       *[no] { "" }
    }
memory-at-death = { KNOWN($free_bytes) ->
        [yes] 最近几秒的最低读数：主机 { SIZE($host_bytes) } 内存中有 { SIZE($free_bytes) } 空闲{ KNOWN($used_bytes) ->
            [yes] ；控制组用了 { SIZE($used_bytes) }（上限 { SIZE($limit_bytes) }）
           *[no] { "" }
        }{ KNOWN($limit_hits) ->
            [yes] ，{ KNOWN($used_bytes) ->
                [yes] { "" }
               *[no] 控制组
            }{ $limit_hits ->
                [0] 从未触及上限
               *[other] 触及上限 { $limit_hits } 次
            }
           *[no] { "" }
        }。
       *[no] { "" }
    }
who-sent-it = 查清这个信号是谁发的：人（kill）、看门狗、作业调度器或容器运行时；它们的日志里有这个 pid。加载器不需要改。
less-memory = 调小 num_workers 或 prefetch_factor，或给作业更多内存。元数据改放在 NumPy 或 Arrow 里：Python 列表一读就会被复制到各个 worker。检查各 worker 的内存。
nine-of-ten = worker 收到 SIGKILL，通常是内核的 OOM killer 发的。

killed-out-of-memory =
    .because = { dead-process }被杀掉：内存不足
    .cause = { nine-of-ten }自开始观察以来，内核在本次运行的控制组中记录到 { $kills } 次 OOM kill。{ memory-at-death }{ was-reading }
    .advice = { less-memory }
killed-perhaps-out-of-memory =
    .because = { dead-process }被杀掉（可能是内存不足）
    .cause = { nine-of-ten }{ $host_known ->
            [yes] 没有看到内核的 OOM kill 计数增加，所以也可能是别的人或程序杀的。
           *[no] { "" }
        }{ memory-at-death }{ was-reading }
    .advice = { less-memory }
killed-from-outside =
    .because = { dead-process }被外部杀掉（内存并不紧张）
    .cause = 发 SIGKILL 的不是内核的 OOM killer，而是别的人或程序：当时内存并不紧张。{ memory-at-death }{ was-reading }
    .advice = { who-sent-it }
ended-by-signal =
    .because = { dead-process }被外部终止（{ $signal }）
    .cause = 这个信号是程序或人发的：进程不会自己因它退出。{ was-reading }
    .advice = { who-sent-it }
native-code-crashed =
    .because = { dead-process }{ KNOWN($sample) ->
            [yes] 在读{ that-sample } 时
           *[no] { "" }
        }崩溃（{ $signal }）
    .cause = worker 中的原生代码崩溃。常见原因：解码器、扩展，或两个互不兼容的库。{ was-reading }
    .advice = 设 num_workers=0 并启用 faulthandler，单独读{ KNOWN($sample) ->
            [yes] { that-sample }
           *[no] 它手上的样本
        }；更新调用栈上出现的那个库。
worker-vanished =
    .because = { dead-process }突然消失
    .cause = 有什么杀掉了这个 worker，或是它自己退出了（os._exit、原生代码崩溃）。{ was-reading }没有看到内核的 OOM kill 计数增加。{ memory-at-death }
    .advice = 在内核日志（dmesg）里找这个 pid，再看{ $plenty ->
            [yes] 作业调度器的日志
           *[no] 此前各 worker 的内存
        }；设 num_workers=0 运行，可以看到原生代码的错误。

## 没能启动的 worker

start-method = { KNOWN($method) ->
        [yes] { $method }
       *[no] 默认启动方式
    }
while-workers-started = 在第一个批次之前，{ $loader } 正在启动 worker（{ start-method }）
loader-cannot-be-pickled =
    .because = { while-workers-started }：加载器中有对象无法 pickle
    .cause = 用 spawn 和 forkserver 时，worker 是全新的进程，dataset、collate_fn、sampler 和 worker_init_fn 都要 pickle 后传给它。
        lambda、局部函数、锁、已打开的文件和 HDF5 句柄都无法 pickle。
    .advice = 把 lambda 和局部函数移到模块级，在 worker 内部打开文件（在 __getstate__ 中去掉它们）；
        如果还没有启动线程、也没用过 CUDA，也可以设 multiprocessing_context="fork"。
cuda-used-before-fork =
    .because = 在第一个批次之前，{ $loader } 的 worker（{ start-method }）中：fork 之前已经用过 CUDA
    .cause = fork 出的 worker 继承了 CUDA 的状态，但无法使用（pytorch#40403）。
    .advice = 让 dataset 返回 CPU 张量，在训练循环里再搬到 GPU，或设 multiprocessing_context="spawn"。
daemonic-process =
    .because = { while-workers-started }：daemon 进程不能有子进程
    .cause = 它自己是某个进程池里的 daemon worker，不能再启动进程。
    .advice = 在进程池内用 num_workers=0，或以 daemon=False 启动该进程。
no-main-guard =
    .because = { while-workers-started }：worker 在导入脚本时退出
    .cause = 用{ KNOWN($method) ->
            [yes] { " " }{ $method }{ " " }
           *[no] 默认启动方式
        }时，每个 worker 都会重新导入脚本。没有 main 保护的话，worker 里也会开始训练，又去启动自己的 worker，随即退出。
    .advice = 把训练代码放到 `if __name__ == "__main__":` 下面，并查看作业日志中的第一个报错栈。
error-while-starting-workers =
    .because = { while-workers-started }
    .cause = 进程在交付任何批次之前就结束了（{ $error }）。
    .advice = 查看作业日志中的报错栈；设 num_workers=0，同样的错误会指到你自己代码的那一行。

## 样本或批次抛出的错误

sample-reader = { KNOWN($worker) ->
        [yes] worker { $worker }{ " " }
       *[no] 训练进程
    }
named-samples = { $samples }{ $more ->
        [0] { "" }
       *[other] { " " }以及另外 { $more } 个
    }
at-line-with-error = { KNOWN($file) ->
        [yes] ，位于 { $file }:{ $line }（{ $function }）
       *[no] { "" }
    }{ KNOWN($error) ->
        [yes] ：{ $error }
       *[no] { "" }
    }
fetch-raised-error = 错误出现在{ KNOWN($worker) ->
        [yes] { " " }worker { $worker }{ " " }
       *[no] 训练进程
    }为{ KNOWN($loader) ->
        [yes] { " " }{ $loader }{ " " }
       *[no] 某个加载器
    }读取数据时。循环得到的是这个错误，而不是批次。
read-up-to-sample = 不用 DataLoader，单独读取数据集直到该样本。修复它读取的内容，或让数据集跳过它。
collate-samples-alone = 单独拼接这些样本，看哪一个不同：collate_fn([dataset[i], dataset[j]])。让它们的形状和类型一致，或进行填充。
sample-raised-error =
    .because = { sample-reader }{ KNOWN($sample) ->
            [yes] { $counted ->
                [yes] 在可迭代数据集的第 { $sample } 号样本上
               *[no] 在样本 { $sample } 上
            }
           *[no] 在一个样本上
        }抛出错误{ at-line-with-error }
    .cause = { fetch-raised-error }
    .advice = { $advice ->
            [collate] { collate-samples-alone }
            [up-to] { read-up-to-sample }
           *[alone] 单独读取该样本：dataset[{ $key }] 会抛出同样的错误。修复它，或让数据集跳过它。
        }
batch-raised-error =
    .because = { sample-reader }{ KNOWN($samples) ->
            [yes] 在样本 { named-samples }{ $more ->
                [0] { " " }
               *[other] { "" }
            }上
           *[no] 在一个批次上
        }抛出错误{ at-line-with-error }
    .cause = { fetch-raised-error }
    .advice = { $advice ->
            [up-to] { read-up-to-sample }
           *[alone] 单独读取这个批次，看哪个样本出错。修复该样本，或让数据集跳过它。
        }
collating-raised-error =
    .because = { sample-reader }{ KNOWN($samples) ->
            [yes] 拼接样本 { named-samples }{ $more ->
                [0] { " " }
               *[other] { "" }
            }时
           *[no] 在一个批次上
        }抛出错误{ at-line-with-error }
    .cause = { fetch-raised-error }
    .advice = { collate-samples-alone }

## 耗时超过 attach(sample_timeout=) 的样本

sample-timeout-advice = 看看那一行在等什么。可以调大 sample_timeout，或设 on_timeout="skip"，跳过能中断的慢样本。
sample-took-too-long =
    .because = { KNOWN($error_says) ->
            [yes] { $error_says }
           *[no] 某个样本的耗时超过了加载器的 sample_timeout
        }
    .cause = { KNOWN($error_says) ->
            [yes] { $error_adds }
           *[no] attach(sample_timeout=…) 因此终止了训练。
        }
    .advice = { sample-timeout-advice }
worker-ended-at-slow-sample =
    .because = { dead-process }读取{ KNOWN($sample) ->
            [yes] 样本 { $sample }{ " " }
           *[no] 一个样本
        }的时间超过了加载器的 sample_timeout
    .cause = 这个样本无法中断，所以直接结束了它的 worker：它当时在不返回 Python 的代码里，或者代码捕获了所有异常。具体哪一行见作业日志。
    .advice = { sample-timeout-advice }

## 脚本捕获后又重试的错误

error-caught-again-and-again = { who }{ $who ->
        [one] { " " }
       *[other] { "" }
    }{ $stands ->
        [yes] 停滞不前：{ $because }，脚本捕获错误后又重试。
       *[no] 在出错后跳过数据：{ $because }，脚本捕获错误后开始下一个 epoch。
    }
caught-cause = 已有 { DURATION($since_s) }没有一遍读到结尾{ $stands ->
        [yes] ，也几乎没有完成训练步。
       *[no] ：出错位置之后的数据从未被训练。
    }
caught-advice = 请记录这个错误并让它结束运行，或限制重试次数。
worker-death-caught =
    .because = { KNOWN($loader) ->
            [yes] { $loader }{ " " }
           *[no] 它的加载器
        }的 worker 已连续死亡 { $failures } 次
    .cause = { caught-cause }
    .advice = { caught-advice }
loader-error-caught =
    .because = { KNOWN($loader) ->
            [yes] { $loader }{ " " }
           *[no] 它的加载器
        }已连续报错 { $failures } 次
    .cause = { caught-cause }抛出的错误只有脚本自己看得到，别处无从得知其内容。
    .advice = { caught-advice }这个错误一般来自数据集或 collate 函数。

## 原因不明的死亡

place-before-first-epoch = 在第一个 epoch 之前
place-outside-loops = 在第 { $step } 步，位于训练循环之外
place-after-epoch = 在第 { $step } 步之后，{ $exhausted ->
        [yes] epoch { $epoch } 已结束
       *[no] 已离开 epoch { $epoch }
    }
place-in-pass = 在第 { $step } 步，正在遍历 { $loader }
place-in-left-epoch = 在 epoch { $epoch } 的第 { $step } 步{ comma-doing }
place-in-step = 在{ KNOWN($epoch) ->
        [yes] { " " }epoch { $epoch } 的
       *[no] { "" }
    }第 { $step } 步{ comma-doing }
comma-doing = { KNOWN($doing) ->
        [yes] ，{ $doing ->
            [iter] 启动 worker 时（iter(loader) 内）
            [wait] 等数据时{ KNOWN($awaited) ->
                [yes] （worker { $awaited } 的批次）
               *[no] { "" }
            }
            [h2d] 把批次拷贝到 GPU 时
            [forward] 前向时
            [backward] 反向时
            [optimizer] optimizer.step() 时
            [teardown] 清理该 epoch 的迭代器时
            [phase] 在阶段 { $phase } 中
           *[step] 在循环体内
        }
       *[no] { "" }
    }
crashed-process = { KNOWN($rank) ->
        [yes] rank { $rank }
       *[no] 训练进程
    }（pid { $pid }{ KNOWN($host) ->
        [yes] ，主机 { $host }
       *[no] { "" }
    }）
exit-code = 退出码 { $exit_code }
crash-title = { crashed-process }于 { $clock } 崩溃{ KNOWN($how) ->
        [yes] （{ $how }）
       *[no] { "" }
    }{ KNOWN($where) ->
        [yes] ：{ $where }
       *[no] { "" }
    }。{ $others ->
        [0] { "" }
       *[other] 还有 { $others } 个 rank 也崩溃了。
    }
crash-cause = { KNOWN($last_words) ->
        [yes] 最后的输出：{ $last_words }。
       *[no] { KNOWN($ended_by) ->
            [yes] 进程因 { $ended_by } 结束。
           *[no] 进程直接消失，没有留下任何输出：SIGKILL 或原生代码崩溃时就是这样。
        }
    }
worker-with-pid = { $worker }（pid { $pid }）
workers-died-before = { $gone ->
        [0] { "" }
       *[other] worker { $gone_workers }在它之前就已退出：先查它们为什么退出。
    }
memory-and-look = { KNOWN($free_bytes) ->
        [yes] { $short ->
            [yes] 减少 worker、调小 prefetch_factor，或避免数据集在每个 worker 里各复制一份。内存不足：{ memory-left }。很可能是被内核的 OOM killer 杀掉的。{ $look }
           *[no] { $look }主机内存并不紧张：{ memory-left }；但容器或作业的上限可能更低。
        }
       *[no] { $look }
    }
memory-left = 主机 { SIZE($host_bytes) } 内存中有 { SIZE($free_bytes) } 空闲{ KNOWN($held_bytes) ->
        [yes] ，它自己占用 { SIZE($held_bytes) }
       *[no] { "" }
    }
look-at-stderr = 请查看其 stderr 的最后几行：Python 错误会在那里留下 traceback。如果没有，则它是被外部终止的：其主机上的 `dmesg -T` 和作业调度器的日志会说明是谁所为。
look-who-killed = 查明 SIGKILL 是谁发的：看其主机上的 `dmesg -T` 和作业调度器的日志。

uncaught-error =
    .title = { crash-title }
    .cause = { crash-cause }
    .advice = { workers-died-before }看作业日志里的报错栈：{ $error }
exit-code-chosen =
    .title = { crash-title }
    .cause = { crash-cause }
    .advice = { workers-died-before }看作业日志中它的最后几行。这个退出码是脚本自己用 sys.exit() 或 os._exit() 选的。
fault-in-native-code =
    .title = { crash-title }
    .cause = { crash-cause }
    .advice = { workers-died-before }请查看其 stderr 的最后几行：原生代码中的错误引发了这个信号。设置 PYTHONFAULTHANDLER=1 后，下一次运行会在那里打印堆栈。
signal-was-sent =
    .title = { crash-title }
    .cause = { crash-cause }
    .advice = { workers-died-before }在调度器的日志里查明这个信号是谁发的：人、程序或作业调度器。
process-was-killed =
    .title = { crash-title }
    .cause = { crash-cause }
    .advice = { workers-died-before }{ memory-and-look }
process-vanished =
    .title = { crash-title }
    .cause = { crash-cause }
    .advice = { workers-died-before }{ memory-and-look }

## 运行结束后的结论

some-process-crashed =
    .title = 有训练进程崩溃。
    .advice = { look-at-stderr }
ended-in-hang = { crashed-process }一直没有恢复，于 { $clock } 结束。
death-was-warned-of = 崩溃前 { DURATION($before_s) }就已告警。
run-was-stopped =
    .title = 被 { $by } 终止{ KNOWN($where) ->
            [yes] ：{ $where }
           *[no] { "" }
        }。
    .advice = { $by_hand ->
            [yes] 无需改动：有人按了 Ctrl-C，或有程序发了 SIGINT，没有出错。
           *[no] 无需改动：有人、程序或作业调度器要求训练停止，没有出错。
        }
