### 循环为什么等：worker 共用的锁，或被其他进程占着的锁。

shared-lock =
    .because = { lock-because }
    .cause = { lock-cause }
    .advice = 让每个 worker 用自己的句柄或连接：在 worker_init_fn 中或取第一个样本时打开。或以只读方式打开文件（SQLite：file:…?mode=ro），缩短持锁时间，多行写入放进一个事务。{ lock-stack }加 worker 只会排在同一条队里。
lock-held-long =
    .because = { lock-because }
    .cause = { lock-cause }
    .advice = 尽早释放锁：一个跨越许多样本的事务在提交之前会把其他 worker 都挡在外面。或者给每个 worker 一个自己的文件。{ lock-stack }增加 worker 只会让它们在同一队列里等待。
lock-because = 它的 { $workers } 个 worker { KNOWN($line) ->
        [yes] 在 { $line }
       *[no] { "" }
    }轮流占用同一把锁
lock-cause = { worker-and-model }。{ $how }
lock-stack = { KNOWN($worker) ->
        [yes] 发现 worker { $worker } { KNOWN($line) ->
            [yes] 在 { $line }
           *[no] { "" }
        }正在等锁（见它的调用栈）。
       *[no] 具体是哪一行，看 worker 的调用栈。
    }
lock-in-kernel = 每个 worker 有 { PERCENT($waiting_ratio) } 的时间在内核里等锁：{ $workers } 个 worker 中平均有 { RATE($at_work) } 个在干活。典型的锁有 multiprocessing.Lock、文件锁、共用的一个数据库连接和 HDF5 的全局锁。
lock-tried-for = 每个 worker 有 { PERCENT($sleeping_ratio) } 的时间在两次抢锁之间睡眠{ KNOWN($holders) ->
        [yes] ，先后看到 { $holders } 个 worker 轮流持有它
       *[no] { "" }
    }。SQLite 的 busy handler、filelock 和围绕 fcntl 的循环都这样等：锁已经空出来，也要等其中一个醒来才能拿到。{ KNOWN($slice_s) ->
        [yes] 每 { DURATION($slice_s) }里，所有 worker 合计完成的量只差 { PERCENT($together_ratio) }；若各干各的，则会差 { PERCENT($own_ratio) }。所以所有 worker 共用一把锁或一个限额。
       *[no] { "" }
    }
lock-kept = 在 { PERCENT($kept_out_ratio) } 的检查中，一个 worker 持有文件锁并在工作，其余大多数 worker 在两次抢锁之间睡眠。SQLite 的 busy handler、filelock 和围绕 fcntl 的循环都这样等。
lock-asked-for = 每个 worker 有 { PERCENT($waiting_ratio) } 的时间在等另一个进程把锁交给它，例如 multiprocessing.Manager 或锁服务器。持锁者读取多久，其他 worker 就等多久。
locked-out =
    .because = 全部 { $workers } 个 worker 一起停住，{ times-so-far }，最长 { DURATION($longest_s) }{ KNOWN($line) ->
            [yes] ，在 { $line }
           *[no] { "" }
        }
    .cause = 不是某个样本的问题：所有 worker 一起停住、一起恢复。期间 { PERCENT($locked_ratio) } 的检查看到 worker 在等锁，或像 SQLite 的 busy handler 那样在两次抢锁之间睡眠。另一个进程占着所有 worker 都需要的锁。
    .advice = 找出在写这个文件或数据库的进程（`lslocks`）。让它的事务尽量短，SQLite 设 journal_mode=WAL，或从副本读取。更多 worker 只会一起等。
