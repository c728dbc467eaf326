### 训练进程及其 worker 打印在作业终端里的行，以及它们记录的原因。

## 开始观察

unwatched-for-fault = 因自身故障（{ $fault }）无法观察这次运行；训练照常进行，但不受观察
partly-watched-for-fault = 因自身故障（{ $fault }），attach 收到的内容未能全部得到观察；训练不受影响
agent-not-loaded = 无法在这里加载（{ $fault }）；训练照常进行，但不受观察
hooks-removed = 自身出现 { $faults } 次故障后已退出；训练照常进行，但不再受观察。最后一次：{ $fault }
unknown-framework = 不认识 { $framework } { $version }；这次运行会被观察，但不显示它的阶段和 epoch。请换用其中一方的其他版本
loader-not-tuned = 无法调优这个加载器，因为它没有被观察；见上一行
addresses-not-written = 无法写入 { $folder }（{ $why }），因此不会向这次运行给出的地址发送消息；告警仍会显示在页面和本终端上
folder-of-another-user = 无法写入 { $path }（{ $why }）；训练照常进行，但不受观察。请把 LOADERWATCH_DIR 设为你自己的目录
rings-not-written = 无法写入 { $path }（{ $why }）；训练照常进行，但不受观察。{ KNOWN($shared_memory) ->
        [yes] 请在 { $shared_memory } 里腾出一些空间，或给容器更多：docker run --shm-size=8g 或 --ipc=host；
            在 Kubernetes 里，把 medium: Memory 的 emptyDir 挂到 { $shared_memory }
       *[no] 请在那里腾出一些空间，或把 LOADERWATCH_DIR 设为可写的目录
    }
data-dir-replaced = 无法写入你自己的数据目录；改用 { $folder }
streamer-not-started = 无法启动 streamer（{ $error }）；训练照常进行，但不受观察。请把 LOADERWATCH_DIR 设为可写的目录
recorded-as-another-run = 这个 rank 从一开始就记录为 { $recorded }，而不是 { $wanted }；请用 --name { $name }
sent-to-another-server = 这个 rank 从一开始就发送到 { KNOWN($server) ->
        [yes] { $server }
       *[no] 本机的服务器
    }，而不是 { $wanted }；请设置 LOADERWATCH_SERVER={ $wanted }
stacks-not-written = 无法写入 { $folder }（{ $why }）；写不了的进程没有调用栈
worker-not-recorded = 无法在 { $folder } 里记录 DataLoader worker { $worker }（{ $why }）：它和其他同样情况的 worker 照常工作，但不受观察。请在那里腾出一些空间
nothing-to-watch = { $script } 没有迭代任何 DataLoader，也没有执行 PyTorch 优化器的任何一步，因此什么都没有测到；如果它用别的方式读数据，请包装那个可迭代对象：
    loader = loaderwatch.attach(loader)

## 缓存的批次

cached-batches-repeat = { $loader }：从现在起重复使用它的前 { $batches } 个批次；这样训练出的结果没有价值
too-few-cached-batches = { $loader }：批次太少，测不出用缓存批次的速度：读了 { $read } 个，用它们又做了 { $steps } 步
speed-with-cached-batches = { $loader }：用 { $kept } 个缓存批次时每秒 { $again_per_s } 个批次，自己读取时每秒 { $read_per_s } 个；{ KNOWN($times) ->
        [yes] 完美的加载器最多能让这次运行快到 { DECIMAL($times) } 倍
       *[no] 完美的加载器也不会让这次运行更快
    }

## attach(autotune=True)

autotune-moved = { $loader } 的 autotune：{ $move }
autotune-move = 在 epoch { $epoch } 之前：{ $changes }（{ $taken_back ->
        [yes] 已撤回：每秒 { $per_s } 个批次，预测为 { $predicted_per_s } 个
       *[no] 每秒 { $per_s } 个批次，预测 { $predicted_per_s } 个
    }）

## attach(sample_timeout=)

limit-of-unwatched-run = { $option } 也不会执行
limit-of-unwatched-loader = 无法执行 { $option }，因为这个加载器没有被观察；见上一行
limit-needs-timers = 无法对 { $loader } 执行 { $option }：它需要 Linux 的定时器和三个空闲的实时信号，而这个进程没有。训练照常进行，但没有这个限制
limit-not-in-process = 无法在训练进程里对 { $loader } 执行 { $option }：{ $error }
limit-not-in-workers = 无法在 { $loader } 的 worker 里执行 { $option }：{ $error }
limit-needs-fetchers = 无法对 { $loader } 执行 { $option }：这个版本的 PyTorch 在别处创建 fetcher
limit-needs-main-thread = 无法对 { $loader } 执行 { $option }：它的样本在主线程之外读取，而只有主线程可以被中断。请在主线程里迭代它，或使用 num_workers=1 或更多
sample-left-out = 跳过 { $loader } 的 { $read ->
        [call] { $index }
        [number] 第 { $index } 个样本（从 0 数起）
       *[sample] 样本 { $index }
    }：它在{ process-that-reads }里用了 { DECIMAL($took_s) } 秒，超过 { $option }，停在 { place-of-sample }。{ $last ->
        [yes] 之后跳过的样本只在页面上计数
       *[no] { "" }
    }
process-that-reads = { KNOWN($worker) ->
        [yes] { " " }worker { $worker }{ " " }
       *[no] 训练进程
    }
place-of-sample = { $stood ->
        [own-code] 数据集自己的代码
       *[line] { $stood }
    }
sample-ended-worker = { KNOWN($loader) ->
        [yes] { $loader }
       *[no] 某个加载器
    } 的{ KNOWN($index) ->
        [yes] 样本 { $index }{ " " }
       *[no] 一个批次
    }在 worker { $worker } 里用时{ KNOWN($took_s) ->
        [yes] { " " }{ DECIMAL($took_s) } 秒
       *[no] 太长
    }，超过{ KNOWN($option) ->
        [yes] { " " }{ $option }
       *[no] 它的 sample_timeout
    }。无法中断它，因此结束了这个 worker：{ KNOWN($stood) ->
        [yes] 它停在 { place-of-sample }，那里的代码不返回 Python，或者有捕获一切的 `except:`
       *[no] 它卡在内核里，存储没有响应时就会这样
    }。请给那个调用设自己的超时，把它放到可以终止的进程里运行，或调大 sample_timeout

## 进程结束

run-ended-after = { $name } 经过 { COUNT($steps) } 步、{ WHOLE_DURATION($took_s) }后结束，{ $lost }
run-ended-early = { $name } { $how }
process-stopped = { at-step }被 { $signal } 停止
process-exited = { at-step }以退出码 { $code } 结束
process-crashed = { at-step }崩溃：{ $error }{ place-of-error }
process-crashed-at-sample = { at-step }崩溃：{ $sample }{ KNOWN($error) ->
        [yes] ；随后 { $error }{ place-of-error }
       *[no] { "" }
    }
at-step = 在{ KNOWN($rank) ->
        [yes] { " " }rank { $rank } 的
       *[no] { "" }
    }{ $step ->
        [0] 第一步之前
       *[other] 第 { COUNT($step) } 步
    }
place-of-error = { KNOWN($place) ->
        [yes] （{ $place }{ KNOWN($raised_in) ->
            [yes] ，由 { $raised_in } 抛出
           *[no] { "" }
        }）
       *[no] { "" }
    }
sample-failed = { process-that-reads }{ $collating ->
        [yes] 拼批
       *[no] 读取
    }{ failed-samples }时失败{ KNOWN($place) ->
        [yes] ，位于 { $place }
       *[no] { "" }
    }：{ $error }
failed-samples = { KNOWN($keys) ->
        [yes] { $counted ->
            [yes] 编号为 { $keys } 的样本
           *[no] 样本 { $keys }{ " " }
        }{ $more ->
            [0] { "" }
           *[other] 和另外 { $more } 个
        }
       *[no] { $samples ->
            [0] 一个批次
            [1] 一个样本
           *[other] 有 { $samples } 个样本的批次
        }
    }
sample-error-not-sent = { $sample }。这个错误无法交给训练进程，训练进程会一直等不到这个批次（{ $why }）。请在模块的顶层定义它的类
