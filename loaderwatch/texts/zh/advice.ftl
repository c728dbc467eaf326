### 在出现停顿之前，对配置的建议：当前配置、原因、要改什么。

n-workers = { $workers } 个 worker
usable-cpus = { PLAIN($usable_cpus) } 个可用 CPU{ KNOWN($of_cpus) ->
        [yes] （共 { $of_cpus } 个）
       *[no] { "" }
    }
one-sample = { $stream ->
        [yes] `next(iter(dataset))`
       *[no] `dataset[0]`
    }

## worker 与 CPU

workers-cpus =
    .what = { n-workers }{ KNOWN($split) ->
            [yes] （{ KNOWN($ranks) ->
                [yes] { $ranks } 个 rank ×{ " " }
               *[no] { "" }
            }{ $split }）
           *[no] { " " }
        }共用 { usable-cpus }。
    .why = { KNOWN($computing_ratio) ->
            [yes] 取数有 { PERCENT($computing_ratio) } 的时间在计算，所以
           *[no] 如果边读边计算，那么
        }超过每个 CPU 一个 worker 之后，每个 worker 只会更慢，还会抢占训练进程的 CPU。{ $quota ->
            [yes] 这个上限来自 CPU 配额，os.cpu_count() 和 PyTorch 自带的警告都看不到它。
           *[no] { "" }
        }
    .change = { $loader } 设 num_workers={ $num_workers }（现为 { $num_workers_now }）{ KNOWN($ranks) ->
            [yes] ，{ $ranks } 个 rank 都这样设。
           *[no] 。
        }{ KNOWN($computing_ratio) ->
            [yes] { "" }
           *[no] 如果 worker 只是在等存储或网络，数量可以超过 CPU 数。
        }
workers-none =
    .what = num_workers=0：加载一个批次要 { DURATION($fetch_s) }{ KNOWN($step_s) ->
            [yes] ，一个训练步要 { DURATION($step_s) }
           *[no] { "" }
        }。
    .why = 批次在训练线程上加载，模型每个批次都得等，加载与计算完全没有重叠。
    .change = 设 num_workers={ $num_workers }、persistent_workers=True{ KNOWN($usable_cpus) ->
            [yes] （{ usable-cpus }）
           *[no] { "" }
        }。{ split-first }
affinity =
    .what = 训练进程只能用 { $cpus } 个 CPU 中的 1 个，它的 worker 也继承这一限制。
    .why = 亲和性掩码只有一个 CPU，通常来自 Slurm 的 --cpus-per-task=1 或 OpenMP 设置（OMP_PLACES、GOMP_CPU_AFFINITY、KMP_AFFINITY）；
        所有 worker 只能轮流用这一个 CPU。
    .change = 给任务分配更多 CPU（srun --cpus-per-task、--cpu-bind=none），或取消这些环境变量。

## worker 里的线程

worker-threads =
    .what = 每个 worker 用 { $threads } 个线程计算：{ $computing } × { $threads } = { $total } 个，可用 CPU 只有 { PLAIN($usable_cpus) } 个{ KNOWN($limits) ->
            [yes] （{ $limits }）
           *[no] { "" }
        }。
    .why = worker 本身已经是并行；其中 BLAS、OpenMP 或 OpenCV 的线程会争抢同样的 CPU，能让取数慢上好几倍。
        在训练进程里调用 torch.set_num_threads 对 worker 不起作用。
    .change = 启动 Python 时设置 OMP_NUM_THREADS=1 MKL_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1，或在 worker_init_fn 里限制这 { n-workers } 的线程数
        （threadpoolctl.threadpool_limits(1)、torch.set_num_threads(1)、cv2.setNumThreads(0)）。

## worker 的启动

persistent-workers =
    .what = persistent_workers=False{ $start ->
            [measured] { $rebuilt ->
                    [yes] ，且每个 epoch 都新建 DataLoader
                   *[no] { "" }
                }：{ n-workers } 在每个 epoch 重新启动，到第一个批次要 { DURATION($start_s) }{ KNOWN($epoch_ratio) ->
                    [yes] ，占一个 epoch 的 { PERCENT($epoch_ratio) }
                   *[no] { "" }
                }。
            [spawned] ，启动方式为 '{ $method }'：每个 epoch 都重新启动 { $workers } 个进程，每个都要重新 import 所有模块并反序列化数据集。
           *[forked] ：{ n-workers } 在每个 epoch 都启动再结束一次。
        }
    .why = 每个 epoch 开始时队列都是空的：worker 先启动，再读前几个批次，模型只能等着。
    .change = { $rebuilt ->
            [yes] DataLoader 只建一次，放在 epoch 循环外面：配合 persistent_workers=True 就能保留 worker。
           *[no] 用 persistent_workers=True 保留 worker。{ $stream ->
                [yes] 注意：如果数据集在 epoch 之间会变（对 IterableDataset 调用 set_epoch），这些变化就不会再传到 worker。
               *[no] { "" }
            }
        }
pickle-fails =
    .what = 启动方式 '{ $method }' 需要序列化（pickle）数据集、collate_fn 和 worker_init_fn，但失败了：{ $error }
    .why = worker 无法启动，第一次迭代就会抛错。
    .change = 用模块级函数代替 lambda 和局部函数；文件、数据库和锁在 worker 里首次使用时再打开（在 __getstate__ 里排除它们）。
pickle-large =
    .what = 启动方式 '{ $method }' 要为 { n-workers } 逐个序列化（pickle）{ MEGABYTES($pickle_bytes) }，每个耗时 { DURATION($pickle_s) }。
    .why = 也就是说，第一个批次之前训练进程要花约 { DURATION($total_s) }，而且每个 worker 各占一份副本。
    .change = 文件列表和标签用 NumPy 数组或 Arrow 表存放，不要用 Python 对象，或者在 worker 里再加载；用 persistent_workers=True 则只付一次代价。
main-guard =
    .what = 脚本没有 `if __name__ == "__main__":`，而 worker 的启动方式是 '{ $method }'。
    .why = 每个 worker 都会重新 import 脚本，于是自己也开始训练；Python 会报 bootstrapping phase 相关的错误并中止。
    .change = 把脚本要执行的代码放到 `if __name__ == "__main__":` 下面。

## 样本和批次

sample-unfinished =
    .what = 按 worker 的方式读取前几个样本，{ DURATION($waited_s) }后仍未读完。
    .why = 只要 worker 是新启动的，该 epoch 的第一个批次至少要等这么久，也可能永远等不到。
    .change = 单独给一个样本计时，在 Python 命令行里执行：{ one-sample }。看看它打开、下载或在等什么。
sample-died =
    .what = 按 worker 的方式读取前几个样本时，进程因 { $died } 退出。
    .why = worker 会以同样的方式挂掉，训练也随之中断。SIGSEGV 和 SIGABRT 来自原生库（往往是在 fork 之前就用过的库），
        SIGKILL 来自内存上限，SIGBUS 来自 /dev/shm 写满。
    .change = 用 `python -X faulthandler` 单独读一个样本：{ one-sample }。如果这样没问题，就把该库的文件和客户端放到 worker 里，首次使用时再打开。
sample-fails =
    .what = { sample-error }
    .why = { sample-error-comes }
    .change = 单独读一个样本，在 Python 命令行里执行：{ one-sample }。
sample-needs-cuda =
    .what = { sample-error }
    .why = { sample-error-comes }
    .change = 让数据集返回 CPU 张量，在训练循环里再把批次搬到 GPU；num_workers=0 只会掩盖这个错误，还会让 GPU 干等。
sample-error = 按 worker 的方式读取前几个样本时出错：{ $error }
sample-error-comes = 第一个批次就会抛出同样的错误。
delivery =
    .what = 一个批次包含 { $parts }。
    .why = 每个批次都由训练线程自己解包：每个张量要占一个文件描述符和一次内存映射，NumPy 数组和 Python 对象则走管道。
        增加 worker 或加大预取在这里没有用。
    .change = 在 collate_fn 里堆叠成少数几个大的 torch 张量（数组用 torch.from_numpy），字符串编码成一个 uint8 张量，
        训练循环用不到的内容不要放进批次。
batch-tensors = { COUNT($number) } 个张量
batch-objects = { COUNT($number) } 个 Python 对象
batch-arrays = { MEGABYTES($batch_bytes) } 的 NumPy 数组
and-also = { $first }、{ $more }

## 预取的批次

prefetch =
    .what = prefetch_factor={ $prefetch_factor_now } × { n-workers } 能撑 { DURATION($covered_s) }的训练，但最慢的取数要 { DURATION($slowest_s) }。
    .why = 平均来看 worker 跟得上（每次取数 { DURATION($fetch_s) }，每步 { DURATION($step_s) }），只有偶发的慢取数才会把就绪的批次耗尽。
    .change = 设 prefetch_factor={ $prefetch_factor }。{ KNOWN($more_bytes) ->
            [yes] 最多多占 { ROUGH_SIZE($more_bytes) } 共享内存。
           *[no] { "" }
        }
shared-memory-short =
    .what = 在途批次最多需要 { ROUGH_SIZE($needed_bytes) } 共享内存（{ $loaders }{ KNOWN($ranks) ->
            [yes] ，再乘 { $ranks } 个 rank
           *[no] { "" }
        }）；{ $host } 的 /dev/shm 共 { ROUGH_SIZE($total_bytes) }，剩余 { ROUGH_SIZE($free_bytes) }。
    .why = worker 通过共享内存传递批次。写满后会报 bus error 或 'unable to write to file'，往往在第二个加载器启动时才出现。
    .change = 把它扩大到至少 { ROUGH_SIZE($enough_bytes) }（docker 用 --shm-size 或 --ipc=host；Kubernetes 在 /dev/shm 挂载 medium: Memory 的 emptyDir），
        或者{ KNOWN($prefetch_factor) ->
            [yes] 给 { $loader } 设 prefetch_factor={ $prefetch_factor }（现为 { $prefetch_factor_now }）。
           *[no] 调低 { $loader } 的 num_workers（现为 { $num_workers }）或批大小。
        }
loader-reads-ahead = { $loader }：{ $all ->
        [yes] 全部 { $batches }
       *[no] { $workers } × { $prefetch_factor }
    } 个批次，每个 { ROUGH_SIZE($batch_bytes) }
comma-also = { $first }；{ $more }
shared-memory-default =
    .what = { $host } 的 /dev/shm 只有 { ROUGH_SIZE($total_bytes) }，是容器的默认值。
    .why = worker 通过共享内存传递批次，所有加载器和 rank 共用这块内存。
    .change = 启动容器时加上 --shm-size 或 --ipc=host。
prefetch-none =
    .what = prefetch_factor=0，却有 { n-workers }。
    .why = PyTorch 在创建加载器时不会拒绝，但第一次迭代就会因 AssertionError 中止。
    .change = prefetch_factor 至少设为 1；不写则默认为 2。

## 单个选项

refused =
    .what = DataLoader 报错：{ $error }
    .why = { $option ->
            [persistent-workers] num_workers=0 时没有可以常驻的 worker：批次在训练线程上加载。
            [prefetch-factor] 只有 worker 才会预取；num_workers=0 时没有 worker。
            [start-method] 启动方式是给 worker 用的；num_workers=0 时没有 worker。
           *[other] PyTorch 不接受这些参数。
        }
    .change = { $option ->
            [persistent-workers] 要与训练并行加载，num_workers 至少设为 1；否则去掉 persistent_workers。
            [prefetch-factor] 要与训练并行加载，num_workers 至少设为 1；否则去掉 prefetch_factor。
            [start-method] num_workers 至少设为 1，或去掉 multiprocessing_context。
           *[other] 按报错信息的提示修改。
        }
pin-memory-off =
    .what = pin_memory=False，而训练进程在用 CUDA。
    .why = 从可分页内存拷贝会阻塞训练线程，直到拷贝完成。
    .change = 加载器设 pin_memory=True，训练循环里用 .to(device, non_blocking=True)；不要在循环里调用 .pin_memory()，那比普通拷贝还慢。
pin-memory-without-gpu =
    .what = pin_memory=True，但这里没有 GPU。
    .why = 没有加速器时 PyTorch 会忽略它，既无开销也无收益。
    .change = 不用改；想消除警告可设 pin_memory=torch.cuda.is_available()。
timeout-without-workers =
    .what = timeout={ PLAIN($timeout_s) }，而 num_workers=0。
    .why = PyTorch 在第一次迭代时就会因一个不带说明的 AssertionError 中止：没有 worker 可等。
    .change = 设 timeout=0，或 num_workers 至少设为 1。
timeout-short =
    .what = timeout={ PLAIN($timeout_s) } 秒，而一个批次{ $probed ->
            [yes] 加载约需 { DURATION($slowest_s) }。
           *[no] 曾经加载了 { DURATION($slowest_s) }。
        }
    .why = timeout 对每个批次都生效，包括每个 epoch 的第一个；超时后 PyTorch 会报错结束运行，且不指明是哪个 worker。
    .change = 设 timeout={ $enough_s }；或设为 0，由 loaderwatch 区分卡死和慢批次。
snapshots =
    .what = { $loader_class } 每个批次都做一次快照（snapshot_every_n_steps=1）。
    .why = 每次都要序列化并传送数据集的 state_dict()；如果里面有 shuffle 缓冲区，开销比批次本身还大。
    .change = 把 snapshot_every_n_steps 设为两次 checkpoint 之间的步数。
flight-recorder =
    .what = 正在使用 NCCL，但集合通信超时时不会写出 flight recorder 转储。
    .why = 卡死之后，它能指出某个 rank 没有执行到的是哪个集合通信；loaderwatch 会读取所有 rank 的转储。
    .change = { flight-recorder-switches }。

## rank 和 worker 如何分数据

set-epoch-forgotten =
    .what = 连续{ $passes ->
            [2] { " " }2 个
           *[other] 三个或更多
        } epoch 开始时 { $sampler }.epoch 都相同。
    .why = { same-order }
    .change = 在每个 epoch 开始时对 { $loader } 的 sampler 调用 set_epoch(epoch)。
set-epoch-absent =
    .what = 脚本里没有任何地方调用 set_epoch，而 { $loader } 的 { $sampler } 靠 epoch 来打乱顺序。
    .why = { same-order }
    .change = 在每个 epoch 开始时对 { $loader } 的 sampler 调用 set_epoch(epoch)；如果只训练一个 epoch 则没有区别。
same-order = sampler 的顺序只取决于它的 epoch，所以每个 epoch 都按相同的顺序遍历数据。
shards-few =
    .what = { $shards } 个分片分给 { shard-readers }：共 { $readers } 个读取方，其中 { $idle } 个分不到数据。
    .why = { shards-run-out }
    .change = 至少 { $readers } 个大小相等的分片{ KNOWN($num_workers) ->
            [yes] ，或设 num_workers={ $num_workers }（现为 { $num_workers_now }）。
           *[no] 。
        }
shards-uneven =
    .what = { $shards } 个分片无法在 { shard-readers } 之间均分：有的读取方会多分到一个。
    .why = { shards-run-out }
    .change = 分片数设为 { $readers } 的倍数，大小相等。
shard-readers = { n-workers }{ KNOWN($ranks) ->
        [yes] { " " }× { $ranks } 个 rank
       *[no] { "" }
    }
shards-run-out = worker 读完自己的分片后，该 epoch 剩下的数据就全靠其他 worker{ KNOWN($ranks) ->
        [yes] ；各 rank 的批次数会因此不同，批次多的那个会卡死。
       *[no] 。
    }
stream-split =
    .what = { n-workers } 都在读{ KNOWN($dataset) ->
            [yes] { " " }{ $dataset }
           *[no] 数据集
        }，而它的代码和 worker_init_fn 都没有判断自己在哪个 worker 里。
    .why = 每个 worker 都会遍历 IterableDataset 的一份副本，所以每行数据会被送出 { $workers } 次：一个 epoch 变成原来的 { $workers } 倍长，
        steps/s 里也只有每 { $workers } 步中的一步是新数据。
    .change = 在{ KNOWN($dataset) ->
            [yes] { " " }{ $dataset }.__iter__
           *[no] 数据集的 __iter__
        } 里给每个 worker 分配各自的部分，例如 rows[info.id :: info.num_workers]，其中 info = torch.utils.data.get_worker_info()；
        改好之前先用 num_workers=1。
uneven-batches =
    .what = { batches-of-ranks }
    .why = 集合通信按次数配对：一个 rank 的 epoch 结束后，其他 rank 会在反向中一直等，直到集合通信超时。
    .change = 让每个 rank 的批次数相同：DistributedSampler、drop_last=True 或 `with Join([model])`。
uneven-batches-of-evaluation =
    .what = { batches-of-ranks }
    .why = 只要验证中没有集合通信就没问题。如果各 rank 的前向次数不同，DDP 模型的 buffer 同步或指标的集合通信就对不上，
        运行会在下一个训练步卡死。
    .change = 让每个 rank 的批次数相同，或在验证时于 torch.no_grad() 下调用 model.module（{ $switch }=False）。
batches-of-ranks = { $loader } 在 rank { $fewest_rank } 上有 { $fewest } 个批次，在 rank { $most_rank } 上有 { $most } 个。
ddp-buffers =
    .what = DDP 模型在每次前向时都会同步 { $buffers } 个 buffer（rank { $ranks }），而且存在评估用的加载器。
    .why = 通过 DDP 包装做验证也会参与同步：如果各 rank 的前向次数不同，运行就会卡死，通常卡在下一个 epoch 的第一步（pytorch#54059）。
    .change = 验证时在 torch.no_grad() 下调用 model.module(x)；{ $switch }=False 也能关掉这种同步。

## 运行中的加载器换一个选项能带来多少：依据

option-persistent-workers = worker 在 { $epochs } 个 epoch 中重新启动，到第一个批次为止 { DURATION($start_s) }，每个 epoch { DURATION($epoch_s) }。
    保留的 worker{ $rebuilt ->
        [yes] （DataLoader 只创建一次，而不是每个 epoch 创建）
       *[no] { " " }
    }仍需读取这个批次。
option-fork = 使用 '{ $method }' 时，每个 epoch 到第一个批次需要 { DURATION($start_s) }。其中多少是导入和数据集的 pickle（fork 的 worker 会继承它们），没有测量。
option-batch-size = 两倍的样本让 worker 花两倍的时间，预读的批次占两倍的内存。训练步最坏花两倍的时间，最好和现在一样。之后模型用不同的批次学习。
option-pin-memory = 从交付到模型的第一次调用，一个批次需要 { DURATION($copied_s) }，其中包括复制到 GPU。
    从锁页内存用 .to(device, non_blocking=True) 复制时，它与模型并行；此时一个线程会在主机上把每个批次再复制一次。
