### 停住不动的：加载器、在自己代码里的进程、脚本已结束的进程。

hang-loader = { KNOWN($loader) ->
        [yes] { $loader }
       *[no] 加载器
    }
hang-ranks = rank { $ranks }

loader-hangs = { KNOWN($rank) ->
        [yes] rank { $rank } 卡死
       *[no] 训练卡死
    }{ $evaluates ->
        [yes] （评估中）
       *[no] { "" }
    }：{ $stuck ->
        [worker] { hang-loader } 的 worker { $worker }（pid { $pid }）{ hang-in-sample }已卡住 { DURATION($age_s) }，{ $because }。
        [process] 训练进程（pid { $pid }）{ hang-in-sample }已卡住 { DURATION($age_s) }（{ hang-loader }），{ $because }。
        [dead-worker] { hang-missing }，{ $because }：worker { $worker }（pid { $pid }）。
       *[nobody] { hang-missing }，{ $because }。
    }
hang-in-sample = { KNOWN($sample) ->
        [yes] 在{ hang-sample } 上
       *[no] { "" }
    }
hang-sample = { $stream ->
        [yes] { sample-name }
       *[no] { " " }{ sample-name }
    }
hang-missing = { $phase ->
        [iter] iter({ hang-loader }) 已有 { DURATION($age_s) }没有返回
        [teardown] { hang-loader } 的 epoch 已有 { DURATION($age_s) }没有结束
       *[next] 已有 { DURATION($age_s) }没有从 { hang-loader } 拿到批次
    }
loader-waited-for =
    .cause = { $evaluates ->
            [yes] 评估
           *[no] 训练循环
        }等 { hang-awaited }已等了 { DURATION($waited_s) }{ KNOWN($usual_s) ->
            [yes] ；它平时 99% 的等待在 { DURATION($usual_s) }内结束
           *[no] { "" }
        }。它等的东西此后毫无动静。
hang-awaited = { $phase ->
        [wait] { KNOWN($batch) ->
            [yes] { hang-loader } 的批次 { $batch }{ " " }
           *[no] { hang-loader } 的一个批次
        }
        [iter] iter({ hang-loader }){ " " }
        [teardown] { hang-loader } 的 epoch 结束
       *[next] next({ hang-loader }){ " " }
    }
process-stands-at =
    .cause = { KNOWN($worker) ->
            [yes] worker { $worker } 停在
           *[no] 它停在
        } { $at }。
ranks-wait-for-loader =
    .cause = rank { $ranks } 也在{ $loaders ->
            [yes] 加载器上
           *[no] 梯度交换中
        }等它。
ranks-stand-there =
    .cause = 所在位置：{ $stands }。
tries-again-asleep =
    .cause = 它反复读取已在内存里的内容，其间睡眠，像是每次失败后都再试一次。
tries-again-at-once =
    .cause = 它一直在读取和计算，像是每次失败后又从头再来。
still-reads =
    .cause = 它还在读数据，可能只是非常慢。
memory-kills-lately =
    .cause = 内核最近在本次运行的 cgroup 里记录到 { $kills } 次 OOM kill。
collective-will-end =
    .cause = { $over ->
            [yes] 到了{ hang-timeout }，集合通信现在本应已被放弃。
           *[no] 再过 { DURATION($left_s) }，到了{ hang-timeout }，集合通信就会被放弃，作业随之终止。
        }
hang-timeout = 超时时限 { DURATION($timeout_s) }{ $known ->
        [yes] { "" }
       *[no] （PyTorch 的默认值）
    }

stands-alone = { $stands ->
        [save] { KNOWN($rank) ->
                [yes] rank { $rank } 的保存
               *[no] 保存
            }{ stands-where }卡住：已有 { DURATION($silent_s) }没有写入任何内容{ stands-because }。
        [searches] { stands-who }{ stands-where }已在同一个优化器步中停留 { DURATION($age_s) }，并且一直在计算{ stands-clears }。
        [works] { stands-who }{ stands-where }已有 { DURATION($age_s) }没有进展{ stands-because }，一直在那里计算或读取{ stands-clears }。
       *[still] { stands-who }{ stands-where }已停住 { DURATION($age_s) }{ stands-because }{ stands-clears }。
    }
stands-who = { KNOWN($rank) ->
        [yes] rank { $rank }{ " " }
       *[no] 训练
    }
stands-where = { $place ->
        [line] { "" }在 { $at }
        [outside] 在循环之外的代码里
        [named-phase] 在阶段“{ $phase }”里
       *[phase] 在{ stands-phase }
    }
stands-phase = { $phase ->
        [step] 训练步里
        [forward] 前向里
        [backward] 反向里
        [optimizer] 优化器步里
        [user] 它自己的代码里
        [h2d] 拷贝批次时
       *[other] { " " }{ $phase } 阶段
    }
stands-because = { KNOWN($because) ->
        [yes] ，{ $because }
       *[no] { "" }
    }
stands-clears = { $clears ->
        [yes] ；原因不在数据加载器
       *[no] { "" }
    }
search-comes-to-no-end =
    .cause = 优化器一再调用它的闭包，或在做线搜索，始终没有结束{ KNOWN($usual_s) ->
            [yes] ；它平时 99% 的步在 { DURATION($usual_s) }内结束
           *[no] { "" }
        }。
stands-in-its-code =
    .cause = { $does ->
            [works] 训练进程在执行自己的代码，耗时远超以往。
            [queue] 训练进程在自己的代码里等待队列，不占 CPU。
            [waits] 训练进程在自己的代码里等待某个东西，不占 CPU。
           *[looks] 训练进程在自己的代码里等待：在睡眠，或在反复查看。
        }
compiles-kernels =
    .cause = 它在编译。
compilers-do-nothing =
    .cause = 它在等编译进程，但没有谁在编译：它的子进程和这台主机上的编译进程都没在计算。
children-have-ended =
    .cause = 由它启动的 { $children } 个进程已经结束，而退出码还没有人取走：应由{ $children ->
            [1] 它
           *[other] 它们
        }发来的内容不会再来。
takes-no-signal =
    .cause = 取不到它的调用栈：处于这种等待时，它不响应信号。
outside-its-loops =
    .cause = { $outside ->
            [before-first-batch] 它还没向加载器要过第一个批次。
            [between-steps] 它处在优化器的两步之间。
            [after-step] 它已走完优化器的一步，那可能是最后一步。
            [between-passes] 它在两轮加载器遍历之间，所在的循环之后还会回到加载器。
           *[outside] 它在训练循环之外：在两个 epoch 之间，或最后一个 epoch 之后。
        }
save-has-not-returned =
    .cause = 保存已进行 { DURATION($age_s) }，仍未返回。
others-do-not-end =
    .cause = { $number ->
            [1] { hang-ranks } 的脚本已结束，但它的进程也不退出。
           *[other] { hang-ranks } 的脚本都已结束，但这些进程也没有退出。
        }
meant-to-take-long =
    .advice = 如果本来就需要很久，把它放进 `with loaderwatch.phase("…")`。

compilers-hang =
    .advice = `ps --ppid { $pid }` 可列出它的编译进程，`py-spy dump --pid` 可看其中某个停在哪里。设置 TORCHINDUCTOR_COMPILE_THREADS=1 后，inductor 会在训练进程内编译，不用进程池。
save-hangs =
    .advice = `ls -l /proc/{ $pid }/fd` 可看它在写什么。{ save-where-it-answers }
save-where-it-answers = 看看保存到的挂载点有没有响应（df、内核日志），以及目标是不是一个没人读的管道。先保存到本地盘，再由另一个进程拷走，这样挂载点失效也不会让训练停下。
optimizer-search-endless =
    .advice = 检查 loss 是否是有限的数（torch.isfinite）：loss 为 NaN 时搜索不会结束。给它设上限：LBFGS 的 max_iter 和 max_eval，自己写的搜索设最小步长。
child-ended-without-answer =
    .advice = 查明子进程为什么结束：`ps --ppid { $pid }` 会把它显示为 <defunct>，它的输出或 `dmesg` 会说明原因。启动之后请在父进程里关闭管道的子进程一端，这样子进程消失时 recv() 会报错；或者用带超时的 poll()，并检查 is_alive()。
stands-still-in-own-code =
    .advice = 看调用栈。常见原因：没有超时的请求、写满的磁盘、写满的管道，或一把锁。

does-not-end = { KNOWN($rank) ->
        [yes] rank { $rank } 的脚本
       *[no] 脚本
    }已结束，但进程已有 { DURATION($age_s) }没有退出：{ $waits ->
        [worker] { hang-loader } 的 worker { $worker }（pid { $pid }）{ $in_sample ->
                [yes] 仍在处理{ hang-sample }{ KNOWN($at) ->
                    [yes] ，位于 { $at }
                   *[no] { "" }
                }
               *[no] { KNOWN($at) ->
                    [yes] 仍停在 { $at }
                   *[no] 不退出
                }
            }，{ $because }。
        [child] 它在等一个子进程{ KNOWN($at) ->
                [yes] ，位于 { $at }
               *[no] { "" }
            }。
        [thread] 它在等一个线程{ KNOWN($lines) ->
                [yes] ，位于 { $lines }
               *[no] { "" }
            }。
        [threads] 它在等一个线程；它的各线程停在 { $lines }。
        [library] 它停在某个库的原生代码里，{ $because }。
       *[function] 它停在{ KNOWN($at) ->
                [yes] { " " }{ $at }
               *[no] 退出时运行的函数里
            }，{ $because }。
    }
waits-at-its-end =
    .cause = { $moves ->
            [worker] 这个 worker 还在用 CPU。
            [child] 它的一个子进程还在工作。
            [thread] 它的一个线程还在不断被唤醒，像是在工作。
            [no-worker] 这个 worker 不用 CPU，而训练进程在无限期地等它。
            [unknown] 训练进程自己什么也没做；它等的对象有没有进展，不得而知。
           *[nothing] 一切都没有动静：不用 CPU，它等的对象也没有一个被唤醒。
        }在它退出之前，等待该作业的程序（torchrun、调度器）也只能跟着等，它占用的内存、端口和 GPU 也不会释放。
worker-outlives-sigterm =
    .advice = 不要在 worker_init_fn 和数据集里改动 SIGTERM 的处理。PyTorch 用 SIGTERM 结束 worker，而这个 worker 处理、忽略或屏蔽了它，或处于信号打断不了的内核等待。
thread-outlives-script =
    .advice = 在脚本结束前让这个线程退出，或以 daemon=True 启动它。给线程里的每个等待加超时。Python 要等所有非 daemon 线程结束才会退出。
child-outlives-script =
    .advice = 逐个 join 子进程并设超时，超时再 terminate()：multiprocessing 退出时会等所有子进程。`ps --ppid { $pid }` 列出它们，`py-spy dump --pid` 看某个停在哪里。
library-outlives-script =
    .advice = 用 `gdb -p { $pid } -batch -ex bt` 找出是哪个库：Python 已卸载自己的模块，它的代码却还在运行。常见原因是还有通信或 stream 没完成：在脚本最后一行之前等它们全部完成并关闭（dist.destroy_process_group()）。
