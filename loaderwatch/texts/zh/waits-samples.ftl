### 个别批次为什么来得晚：慢样本、一次读入整块、取数时间相差很大。

slow-blocks =
    .because = worker 每 { $block } 个样本就停下来读取，最长 { DURATION($tail_s) }
    .cause = 在 worker 读取的顺序中，慢样本彼此相隔 { $block } 个。数据集在那里一次读入整块数据（重新填满的 shuffle 缓冲区、一个 row group、一个分片），之后从内存交出：平常一个批次只要 { DURATION($usual_s) }。
    .advice = 不怪任何一个样本。请在交出这一块的同时读取下一块：在数据集里用一个线程，或者对 shuffle 缓冲区取一个样本就补读一个。块越小，每次停顿越短，但越频繁。{ $then ->
            [stays] 平均而言，worker 每个批次要 { DURATION($each_s) }，而一步只要 { DURATION($step_s) }：这部分差距仍会存在。
            [prefetch] prefetch_factor={ $prefetch_factor } 也能撑过去。{ prefetch-memory }
           *[nothing] { "" }
        }
prefetch-memory = { KNOWN($memory_bytes) ->
        [yes] 约需 { MEBIBYTES($memory_bytes) } 的 /dev/shm。
       *[no] { "" }
    }
uneven-fetches =
    .because = { $slow_fetches } 次慢取数（最长 { DURATION($tail_s) }）超过了预取的批次能撑的 { DURATION($cushion_s) }
    .cause = 平均来看 worker 跟得上，但偶尔一次取数要 { DURATION($tail_s) }，而预取的批次只能撑 { DURATION($cushion_s) }（prefetch_factor { $prefetch_factor_now } × { workers } × 每步 { DURATION($step_s) }）。
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
            [yes] ，是 { $slow_samples } 个慢样本中最慢的
           *[no] { "" }
        }{ $behind ->
            [yes] ，后面已完成的批次只能等它
           *[no] { "" }
        }
    .cause = 批次按顺序交付，所以{ $several ->
            [yes] 每个
           *[no] 一个
        }慢样本都会挡住所有就绪的批次：{ what-took }，而普通批次用时 { DURATION($usual_s) }。这期间不再派发新任务，其他 worker 也会闲下来。
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
