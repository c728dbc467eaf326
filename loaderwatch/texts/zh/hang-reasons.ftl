### 进程为什么没有进展：依据它的状态和调用栈。

in-kernel = { KNOWN($wchan) ->
        [yes] （{ $wchan }）
       *[no] { "" }
    }

worker-process-dead =
    .because = 且 worker 进程已死
    .advice = 查看那个 worker 是否因内存不足被杀（dmesg、memory.events），或是原生代码崩溃。如果原因是内存，降低 num_workers 或 prefetch_factor，并且不要在 next() 外面吞掉异常。
worker-queue-never-filled =
    .because = 在等一个一直为空的队列
    .advice = 看 worker 的日志，get() 与 put() 之间是否出过错：这样的错误会让它等的东西丢失。请在 `finally` 里放回，并使用 get(timeout=…)。如果应由线程来填充队列，请在 worker 里启动它：线程不会随 fork 保留。
batch-lost-on-the-way =
    .because = { $idle ->
            [1] 但它唯一的 worker 空闲
           *[other] 但全部 { $idle } 个 worker 都空闲
        }
    .advice = 看训练进程的调用栈，pin_memory 线程或预取线程是否已死；再看作业日志里有没有线程抛出的异常。worker 已交出批次，但训练进程没有收到。

reader-thread-left =
    .because = 因为读取 { $loader } 的线程 { $reader } 没有读完就结束了
    .advice = 看看这个线程捕获了什么：被丢掉的错误，或者记在没有显示的日志级别里的错误。线程里的错误要经由它的队列传出来，并用 get(timeout=…) 再检查线程是否还活着。
reader-thread-died =
    .because = 因为读取 { $loader } 的线程 { $reader } 因 { $error } 结束
    .advice = 修好引发 { $error } 的问题：错误信息和行号在作业日志里，训练循环没有收到这个错误。让线程的错误经队列传出来，并用 get(timeout=…)，同时检查线程是否还活着。
queue-never-filled =
    .because = 因为它的队列一直是空的{ KNOWN($reader) ->
            [yes] ：读取 { $loader } 的线程 { $reader } 什么也没送来
           *[no] { "" }
        }
    .advice = 在作业日志里找填充队列的线程的异常：它已结束或卡住。让线程的错误经队列传出来，并用 get(timeout=…)，同时检查线程是否还活着。

pool-gives-no-sign =
    .because = 在等一个没有动静的进程池或线程池
    .advice = 改用 concurrent.futures.ProcessPoolExecutor（会抛出 BrokenProcessPool），或用 map_async(...).get(timeout)。如果 multiprocessing.Pool 的某个 worker 被杀掉（看 dmesg，或它自身的资源限制），它的任务就丢了，进程池会一直等下去。如果没有 worker 被杀掉，用 `py-spy dump` 看各 worker 停在哪里。
future-gives-no-sign =
    .because = 在等一个没有动静的 future{ KNOWN($lines) ->
            [yes] ；它的各线程停在 { $lines }
           *[no] { "" }
        }
    .advice = 让任务里再提交的工作用单独的 executor，并用 result(timeout=...) 等待。等待同一个 executor 的另一个任务时，任务会占住一个线程：所有线程都这样时，谁也无法开始。
thread-gives-no-sign =
    .because = 在等自己的另一个线程，而它没有任何动静
    .advice = 在作业日志里找那个线程的异常：它已结束或卡住。在 `finally:` 里设置事件，等待时加超时并检查线程是否还活着。

retries-without-end =
    .because = 反复重试同一件事
    .advice = { without-end-advice }
computes-without-end =
    .because = 一直在计算，没有尽头
    .advice = { without-end-advice }
without-end-advice = 看那个样本和这里指出的代码行：重试循环、不可能成功的数据增强、无限回溯的正则表达式，或解码器遇到的损坏文件。给每处重试加上限，跳过该样本并记一行日志。

stopped-by-signal =
    .because = 被信号暂停
    .advice = 用 kill -CONT { $pid } 让{ KNOWN($worker) ->
            [yes] { " worker " }{ $worker }{ " " }
           *[no] 训练进程
        }继续，或查明是什么停住了它。
lock-never-released =
    .because = 在等一把没人释放的锁{ in-kernel }
    .advice = { KNOWN($worker) ->
            [yes] 先创建加载器再启动线程，或使用 multiprocessing_context="forkserver"。在 worker 内部打开文件和客户端，并限制各库的线程数（cv2.setNumThreads(0)、OMP_NUM_THREADS=1）。很可能在 fork 出 worker 时，有线程正持有锁。
           *[no] 在训练进程的各个调用栈里看谁持有锁。
        }
file-lock-held =
    .because = 在等另一个进程持有的文件锁{ in-kernel }
    .advice = 用 `lslocks` 查谁持有锁，可能是别的作业或别的主机上的进程。取锁要有期限（LOCK_NB 加截止时间），持有时间尽量短。
named-pipe-never-opened =
    .because = 在打开一个命名管道，而没有别的进程打开它{ in-kernel }
    .advice = 在原位置放一个普通文件，或启动应向它写入的进程：调用栈里有打开它的那一行，`ls -l` 会把管道显示为 p。按文件夹列文件的数据集可以跳过非普通文件。
sleeps-in-own-code =
    .because = 在自己的代码里睡眠{ in-kernel }
    .advice = 看这里指出的代码行：它长时间睡眠，或反复睡眠。重试或轮询的循环要有上限，并记一行日志说明在等什么。
child-never-ends =
    .because = 在等一个不结束的子进程{ in-kernel }
    .advice = 先把子进程的结果从队列或管道里读完，再 join()（subprocess 用 communicate()），并给等待设置超时：结果没被读走，子进程就不会结束。`ps --ppid { $pid } -o pid,stat,wchan:24,cmd` 可看那个子进程和它停在哪里。
connection-never-answers =
    .because = 在等网络或管道，一直没有回应{ in-kernel }
    .advice = { never-answers-advice }
something-never-answers =
    .because = 在等一个始终没有来的回应{ in-kernel }
    .advice = { never-answers-advice }
never-answers-advice = 给每个连接和每次读取都加上超时，重试次数要有上限。{ $loops ->
        [yes] DataLoader(timeout=…) 会把这种等待变成报错；取值要比最慢的第一个批次更长。
       *[no] { "" }
    }{ $pipe ->
        [yes] 如果另一端是它自己启动的程序，`ps --ppid { $pid } -o pid,stat,wchan:24,cmd` 会显示它停在哪里：若在 pipe_write，说明它的某个输出（例如 stderr=PIPE）已满，因为没有人读取。
       *[no] { "" }
    }
storage-never-answers =
    .because = 在等没有响应的存储{ in-kernel }
    .advice = 检查它读写的挂载点（NFS、Lustre、FUSE；挂载点失效时 `df` 会卡住）和主机的内核日志。问题不在你的代码。
uninterruptible-wait =
    .because = 在内核中处于不可中断的等待{ in-kernel }
    .advice = 查明哪个驱动或挂载点没有响应：`sudo cat /proc/{ $pid }/stack` 可看出是哪个，内核日志会列出阻塞超过 120 秒的进程。信号（包括 SIGKILL）可能要等它结束后才生效。
