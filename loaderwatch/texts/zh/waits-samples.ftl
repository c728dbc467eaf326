### 个别批次为什么来得晚：慢样本、一次读入整块、取数时间相差很大。

slow-blocks =
    .because = worker 每 { $block } 个样本就要读入一整块，最长 { DURATION($tail_s) }
    .cause = 在每个 worker 里，每 { $block } 个样本就有一个慢样本。数据集在那里一次读入整块数据：一个 shuffle 缓冲区、一个 row group 或一个分片。之后的样本来自内存，平常一个批次只要 { DURATION($usual_s) }。
    .advice = 在数据集里用一个线程，趁使用这一块的样本时读取下一块。如果是 shuffle 缓冲区，每取走一个样本就补读一个。块越小，每次停顿越短，但越频繁。{ $then ->
            [stays] 平均而言，worker 每个批次要 { DURATION($each_s) }，而一步只要 { DURATION($step_s) }：即使这样，差距仍会存在。
            [prefetch] prefetch_factor={ $prefetch_factor } 也能撑过去。{ prefetch-memory }
           *[nothing] { "" }
        }
prefetch-memory = { KNOWN($memory_bytes) ->
        [yes] 约需 { MEBIBYTES($memory_bytes) } 的 /dev/shm。
       *[no] { "" }
    }
uneven-fetches =
    .because = { $slow_fetches } 次慢取数（最长 { DURATION($tail_s) }）比预取的批次能撑的时间（{ DURATION($cushion_s) }）更长
    .cause = 平均来看 worker 跟得上，但少数取数长达 { DURATION($tail_s) }。预取的批次只能撑 { DURATION($cushion_s) }（prefetch_factor { $prefetch_factor_now } × { workers } × 每步 { DURATION($step_s) }）。
    .advice = { $raise ->
            [yes] 设置 prefetch_factor={ $prefetch_factor }（当前 { $prefetch_factor_now }）。{ prefetch-memory }{ $pass ->
                [yes] in_order=False（torch 2.6 及以上）不占内存，但会改变顺序。
               *[no] { "" }
            }
           *[no] 查清为什么有些取数要 { DURATION($tail_s) }。{ $pass ->
                [yes] in_order=False（torch 2.6 及以上）可以让其他批次先走。
               *[no] { "" }
            }
        }{ KNOWN($named) ->
            [yes] 最慢的是 { $named }。
           *[no] { "" }
        }
slow-sample =
    .because = { what-took }{ $several ->
            [yes] （{ $slow_samples } 个慢样本中最慢的）
           *[no] { "" }
        }{ $behind ->
            [yes] ，后面已完成的批次只能等它
           *[no] { "" }
        }
    .cause = 批次按顺序交付，所以{ $several ->
            [yes] 每个
           *[no] 一个
        }慢样本都会耽误所有就绪的批次：{ what-took }，而普通批次用时 { DURATION($usual_s) }。这期间其他 worker 得不到新任务，只能闲着。
    .advice = { KNOWN($sample) ->
            [yes] 检查 { $named }：缩短、缓存或跳过。
           *[no] 检查这里列出的批次中的样本：过长的缩短、缓存或跳过。
        }{ $pass ->
            [yes] torch 2.6 及以上可用 in_order=False，让就绪的批次越过慢批次（顺序会因此改变）。
           *[no] { "" }
        }对这样的样本，加 worker 没有用。
what-took = { KNOWN($sample) ->
        [yes] { sample-name }
       *[no] 一个批次
    } 在 { one-worker } 中用了 { DURATION($took_s) }
