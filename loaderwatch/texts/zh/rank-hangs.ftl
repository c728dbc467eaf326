### 互相等待、没有进展的 rank。地点（rank-place）都以“在”开头，后面直接接动词。

rank-place = { $place ->
        [call] 在 { $at }的{ call-name }中
        [collective] 在{ $collective ->
                [buffer-sync] 前向的 buffer 同步
               *[other] { call-name }
            }中
        [line] 在 { $at }
        [loader] 在{ loader-call }{ KNOWN($at) ->
                [yes] ，其 worker 停在 { $at }
               *[no] { "" }
            }
        [ended] 在进程结束处
        [exit] 在 Python 的退出阶段（等待其线程和子进程）
        [outside] 在循环之外的代码里
       *[phase] 在{ stands-phase }
    }
call-name = { $collective ->
        [buffer-sync] { " " }buffer 同步
        [backward] 反向
       *[other] { " " }`{ $collective }`{ " " }
    }
loader-call = { $phase ->
        [iter] { " " }iter({ hang-loader }) 中
        [teardown] { " " }{ hang-loader } 的 epoch 结束处
       *[next] { " " }next({ hang-loader }) 中
    }
place-label = { $place ->
        [crashed] 已崩溃
        [ended] 已结束
        [unknown] 没有消息
        [moving] 仍在运行
        [collective] { $collective ->
            [buffer-sync] the forward pass's buffer sync
            [backward] 反向
           *[other] { $collective }
        }
        [line] { $at }
        [loader] { $phase ->
            [iter] iter({ hang-loader })
            [teardown] { hang-loader } 的 epoch 结束
           *[next] next({ hang-loader })
        }
        [exit] Python 的退出阶段（等待其线程和子进程）
        [outside] 循环之外的代码
       *[phase] { $phase ->
            [step] 它的训练步
           *[other] 它的{ phase-name }
        }
    }
place-line = { $of_worker ->
        [yes] worker 在 { $line }
       *[no] { $line }
    }
# 名称是拉丁字母时，括号用半角。
place-with-line = { $collective ->
        [backward] { place-label }（{ $line }）
       *[other] { place-label } ({ $line })
    }
ranks-stand = { hang-ranks } { $place }
next-place = { $place }；{ $after }
last-place = { $place }；{ $after }
more-places = 另有 { $number } 处
ranks-without-stack =
    .cause = 无法取得 { hang-ranks } 的调用栈，因此不知道其代码行。
gpu-blocked-in-collective =
    .cause = GPU 显示利用率 { WHOLE($utilization_percent) }%，功率却只有 { WHOLE($power_w) } W（上限 { WHOLE($power_limit_w) } W）：它卡在集合通信里，并没有在计算。

flight-recorder-names-collective =
    .cause = PyTorch flight recorder：{ $group } 的第 { $collective } 个集合通信在 { $waiting } 上是 { $entry }；{ $apart } { KNOWN($instead) ->
            [yes] 执行的却是 { $instead }
           *[no] 从未到达
        }。
flight-entry = { KNOWN($at) ->
        [yes] { $at }处的 { $what }
       *[no] { $what }
    }
flight-recorder-is-off =
    .advice = 设置 { flight-recorder-switches }，下次卡死时就能指出是哪个集合通信。

epoch-begun-without-others = rank { $gone } 在 epoch { $left_epoch } 之后离开了循环，{ $ended ->
        [yes] 进程已结束
       *[no] 现在停{ $left_place }
    }；rank { $waiting } 已开始 epoch { $epoch }，正{ $place }等待 rank { $gone }。
nobody-will-come =
    .cause = 不会再有 rank 加入这个集合通信，各 rank 只能等它超时。
unequal-batches-per-rank =
    .title = rank { $rank } 在 epoch { $epoch } 有{ $or_more ->
            [yes] 至少 { $batches } 个批次
           *[no] { " " }{ $batches } 个批次
        }，rank { $left_rank } 只有 { $left_batches } 个：rank { $waiting } { $place }等待 rank { $gone }。
    .cause = 每一步都需要所有 rank 参与，但它们的批次数不同。rank { $rank } 在 epoch { $epoch } 的第 { $batch } 个批次；rank { $left_rank } 跑完 { $left_batches } 个批次就结束了 epoch { $left_epoch }，{ $ended ->
            [yes] 进程已结束
           *[no] 现在停{ $left_place }
        }。不会再有 rank 加入这个集合通信，各 rank 只能等它超时。
    .advice = 让每个 rank 的批次数相同：DistributedSampler 加 drop_last=True，IterableDataset 用等量分片，或把循环包在 `with torch.distributed.algorithms.join.Join([model])` 里。不要只在一个 rank 上跳过或过滤批次。

ranks-in-different-places = 各 rank 停在不同的地方互相等待，已 { DURATION($age_s) }{ KNOWN($places) ->
        [yes] ：{ $places }
       *[no] { "" }
    }。
unequal-forward-passes =
    .cause = 各 rank 跑的前向次数不同。每次前向，只要它前面那次前向带梯度，DistributedDataParallel 就会把 rank 0 的 buffer（BatchNorm 统计量）复制到所有 rank。常见原因：验证只在一个 rank 上经过包装后的模型，或批次数不等。
    .advice = 验证时在 torch.no_grad() 下调用 model.module(x)，不要用 model(x)，并且要么所有 rank 都跑，要么都不跑。设 { $option } 可以彻底关掉这种复制。
ranks-in-different-collectives =
    .cause = { ways-differ }常见原因：某个 rank 跳过了一个批次，或某个分支取决于只有它才有的数据。
    .advice = 这类决定要所有 rank 一起做（对标志位做 all_reduce）；设 TORCH_DISTRIBUTED_DEBUG=DETAIL 可以看出哪个集合通信不一致。
ways-differ = 各 rank 走了不同的代码路径，集合通信因此对不上。
ranks-part = { $seen ->
        [epochs] 在此之前各 rank 的批次数相同。
       *[ways] { ways-differ }
    }
rank-destroys-its-group =
    .cause = { ranks-part }有一个 rank 已在销毁它的进程组：错误、`return` 或 `break` 使它离开了循环。
    .advice = 到该 rank 的 stderr 里找回溯信息，并让错误立即结束进程。没有错误时，由所有 rank 一起决定循环何时结束：对损失做 all_reduce。
rank-left-the-loop =
    .cause = { ranks-part }循环是否继续由每个 rank 各自决定：依据自己的损失（早停）、时间限制或某个文件。
    .advice = 在循环结束或继续之前，为所有 rank 统一决定：对 loss 做 all_reduce，或广播 rank 0 的决定。
checkpoint-by-one-rank =
    .cause = { ranks-part }只有一个 rank 在保存检查点的代码里到达了集合通信。
    .advice = 把这个集合通信移出 `if rank == 0`：所有 rank 都要调用它，分片模型的 state_dict() 也一样。只有写文件由一个 rank 完成。
evaluation-by-one-rank =
    .cause = { ranks-part }只有一个 rank 在评估中到达了集合通信。
    .advice = 让所有 rank 都做评估，或让一个 rank 不用任何集合通信来做：用 model.module(x) 代替 model(x)，指标不做同步。
data-preparation-by-one-rank =
    .cause = { ranks-part }只有一个 rank 在准备数据的代码里到达了集合通信。
    .advice = 让一个 rank 在所有 rank 都会调用的 barrier 之前构建：`if rank == 0: build()`，然后 dist.barrier()，再由所有 rank 读取。
report-by-one-rank =
    .cause = { ranks-part }只有一个 rank 在上报结果的代码里到达了集合通信。
    .advice = 在所有 rank 上归约指标，只让一个 rank 写出结果。
collective-by-one-rank =
    .cause = { ranks-part }只有一个 rank 到达了这个集合通信：循环中的某个分支只在部分 rank 上执行。
    .advice = 让所有 rank 都到达这个集合通信，或都不到达：把它移出 `if rank == 0`，或移出取决于本地数据的分支。需要各 rank 决定时，先对一个标志做 all_reduce。
model-branches-differ =
    .cause = { ranks-part }{ model-branches }
    .advice = { same-layers-everywhere }
model-branches = 各 rank 走了模型的不同分支，其前向和反向中的集合通信因此对不上。
same-layers-everywhere = 每一步在所有 rank 上使用相同的层。做不到时，在 DistributedDataParallel 中设 find_unused_parameters=True；TORCH_DISTRIBUTED_DEBUG=DETAIL 会列出没有梯度的参数。

# 主语之后的空格：“训练”之后没有。
who-apart = { who }{ $who ->
        [training] { "" }
       *[other] { " " }
    }
ranks-stand-still = { who-apart }{ $place }已停住 { DURATION($age_s) }。
collective-never-completes =
    .cause = { never-completes }
    .advice = 检查各 rank 之间的网络，并查看所有 rank 的日志：其中可能记着连接断开或进程退出。使用 NCCL 时，下次运行请设 NCCL_DEBUG=INFO：每个 rank 会记下自己的连接及其错误。
backward-never-completes =
    .cause = { never-completes }也可能是：{ model-branches }
    .advice = { same-layers-everywhere }
never-completes = 所有 rank 都进了这个集合通信，它却没有完成：可能是网络问题，或对端已退出。
all-ranks-send =
    .title = { all-on-one-side }：没有一个在接收。
    .cause = { took-the-same-side }
    .advice = { pair-sends }
all-ranks-receive =
    .title = { all-on-one-side }：没有一个在发送。
    .cause = { took-the-same-side }
    .advice = { pair-sends }
all-on-one-side = { who-apart }{ $place }已停住 { DURATION($age_s) }{ KNOWN($at) ->
        [yes] ，位于 { $at }
       *[no] { "" }
    }
took-the-same-side = 对方接收后 send 才返回，对方发送后 recv 才返回。这里所有 rank 都做了同样的事，通常是因为各 rank 自己决定谁发谁收。
pair-sends = 由一个 rank 决定谁发送，并广播这个决定；双方都可能发送时，按 rank 编号决定。双向交换可用 torch.distributed.batch_isend_irecv 配对。

crashed-title = rank { $gone } 已崩溃{ KNOWN($how) ->
        [yes] （{ $how }）
       *[no] { "" }
    }；rank { $waiting } { $place }等待 rank { $gone }。
crashed-cause = rank { $gone } 已死；其他 rank 在集合通信里等它，一直等到超时。
others-wait-for-crashed-rank =
    .title = { crashed-title }
    .cause = { crashed-cause }
    .advice = 停掉作业：已无法继续。再查明主机 { $host } 上的 rank { $gone } 为什么退出；它最后的训练步见它的页面。
rank-crashed-on-unused-parameters =
    .title = { crashed-title }
    .cause = { crashed-cause }
    .advice = { same-layers-everywhere }
others-wait-for-ended-rank =
    .title = rank { $gone } 已正常退出；rank { $waiting } { $place }等待 rank { $gone }。
    .cause = rank { $gone } 已正常退出；其他 rank 在集合通信里一直等到超时。
    .advice = 让所有 rank 自始至终参与相同的集合通信，谁也不提前离开：每个 rank 上先 dist.barrier()，再 dist.destroy_process_group()。

others-wait-for-one = rank { $gone } { $stuck ->
        [yes] 卡
       *[no] 停
    }{ $odd_place }已 { DURATION($age_s) }{ KNOWN($because) ->
        [yes] ，{ $because }
       *[no] { "" }
    }；rank { $waiting } { $place }等待 rank { $gone }。
one-rank-does-other-things =
    .cause = rank { $rank } 执行的代码与其他 rank 不同，而其他 rank 在集合通信里等它。{ $moves ->
            [nothing] rank { $rank } 不用 CPU，也没有进展。
            [polls] rank { $rank } 几乎不用 CPU：在睡眠或轮询。
           *[unknown] { "" }
        }
save-of-one-rank-hangs =
    .advice = { save-where-it-answers }
bound-that-wait = { $polls ->
        [yes] 给这个 rank 的等待加上会报错的超时，以防它等的文件、服务器或另一个作业永远不来。
       *[no] { "" }
    }
others-wait-for-checkpoint =
    .advice = { bound-that-wait }让一个 rank 写检查点，其他 rank 继续训练：用 torch.distributed.checkpoint.async_save，或复制到主机内存由线程写出。
others-wait-for-evaluation =
    .advice = { bound-that-wait }把评估分给所有 rank（DistributedSampler），或用单独的作业评估已保存的检查点。
others-wait-for-data-preparation =
    .advice = { bound-that-wait }在训练之前用单独的作业准备数据，使任何 rank 都不必等。调大 init_process_group 的 timeout 只能避免作业中止：其他 rank 还是要等。
others-wait-for-long-work =
    .advice = { bound-that-wait }单个 rank 的长时间工作应放在训练之前或另一个进程里，不要让其他 rank 等它。调大 init_process_group 的 timeout 只能避免作业中止：其他 rank 还是要等。
