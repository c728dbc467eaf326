### 偶尔比平常长得多的训练步，以及越来越长的训练步。

## 偶尔长得多的训练步

long-steps = { $steps } 个长步
spends-in-long-steps = { slow-step-who }有 { PERCENT($share_ratio) } 的时间花在 { long-steps }上{ measured }，最长 { DURATION($longest_s) }

garbage-collector-in-steps =
    .title = { slow-step-who }有 { PERCENT($share_ratio) } 的时间耗在 Python 垃圾回收上{ measured }：步内 { $steps } 次停顿，最长 { DURATION($longest_s) }。
    .cause = 一次完整回收要遍历进程持有的所有容器；堆很大时（元数据、词表、缓存）每次要 { DURATION($longest_s) }，整个循环都停住。原因不在加载器。{ $who ->
            [training] { "" }
           *[one] 其他 rank 在反向里等它，每次停顿的是不同的 rank。
        }
    .advice = 初始化完成后调用一次 gc.collect() 和 gc.freeze()，长期存活的对象就不会再被遍历；或者 gc.disable()，每隔几百步调用 gc.collect(1)，所有 rank 在同一步进行。

new-batch-sizes =
    .title = { lost-in-long-steps }：每次都伴随新尺寸的批次。
    .cause = { new-shapes-compile }
    .advice = { keep-shapes }
last-batch-shorter =
    .title = { lost-in-long-steps }：每次都伴随 epoch 末尾那个较小的批次。
    .cause = { new-shapes-compile }
    .advice = { keep-shapes }
compiling-in-steps =
    .title = { slow-step-who }在 { long-steps }中因编译损失了 { DURATION($lost_s) }，最长 { DURATION($longest_s) }。
    .cause = { new-shapes-compile }
    .advice = { keep-shapes }
lost-in-long-steps = { slow-step-who }在 { long-steps }中损失了 { DURATION($lost_s) }，最长 { DURATION($longest_s) }
new-shapes-compile = 每遇到新的输入形状，torch.compile 都会重新编译，cudnn.benchmark 重新试 kernel，CUDA graph 重新录制，分配器申请新的块。平常一步耗时 { DURATION($usual_s) }。原因不在加载器。{ $seen_compiling ->
        [yes] 这种步的调用栈显示编译器在工作{ KNOWN($at) ->
                [yes] ，调用自 { $at }
               *[no] { "" }
            }。
       *[no] { "" }
    }
keep-shapes = 保持形状不变：drop_last=True，填充到少数几档长度，变化的维度用 torch._dynamo.mark_dynamic 标记，尺寸多变时设 cudnn.benchmark=False。TORCH_LOGS=recompiles 会指出是哪个 guard 失效。

padded-batches =
    .title = { spends-in-long-steps }：每次都遇到约为平常 { DECIMAL($times) } 倍大的批次。
    .cause = 平常一步需要 { DURATION($usual_s) }。通常是一个很长的样本通过填充使同一批次的其他样本变得一样长。原因不在数据加载器。
    .advice = 把长度相近的样本放进同一批次（在缓冲区内排序），限制批次填充后的大小，或截断少数长得多的样本。

own-work-in-steps =
    .title = { spends-with-rhythm }；原因不在数据加载器。
    .cause = { loop-does-something }
    .advice = { if-not-meant }
polling-in-steps =
    .title = { spends-with-rhythm }；原因不在数据加载器。
    .cause = { loop-does-something }{ loop-polls }
    .advice = 看看它要找的东西由谁产生、为什么这么晚：改为等通知（barrier、事件、队列），或看得更勤。{ if-not-meant }
file-lock-in-steps =
    .title = { spends-with-rhythm }；原因不在数据加载器。
    .cause = { loop-does-something }{ loop-waits-for-file-lock }
    .advice = `lslocks` 可看谁持有锁：让它少持有一会儿，或用 LOCK_NB 取锁，取不到就先不做。{ if-not-meant }
model-acts-in-steps =
    .title = { spends-with-rhythm }；原因不在数据加载器。
    .cause = { loop-does-something }{ loop-calls-model }
    .advice = { if-not-meant }
unattached-loader-in-steps =
    .title = { spends-with-rhythm }；它在那里读取一个未接入的 DataLoader。
    .cause = { loop-does-something }{ $there ->
            [polling] { loop-polls }
            [file-lock] { loop-waits-for-file-lock }
            [model-acts] { loop-calls-model }
           *[own-work] { "" }
        }
    .advice = 把那个加载器也接上：loaderwatch.attach(loader, role="eval")。这样它的等待会单独列出，并给出该改什么。{ if-not-meant }
spends-with-rhythm = { spends-in-long-steps }{ KNOWN($every) ->
        [yes] ，每 { $every } 步一次
       *[no] { KNOWN($every_s) ->
            [yes] ，每 { DURATION($every_s) }一次
           *[no] { "" }
        }
    }{ lately-at }
lately-at = { KNOWN($at) ->
        [yes] ，最近一次在 { $at }
       *[no] { "" }
    }
loop-does-something = 平常一步耗时 { DURATION($usual_s) }，而长步里没有在等已接入加载器的数据：是循环自己偶尔做了别的事，例如写日志、算指标、画图、评估或存检查点。
loop-polls = 它在那里反复查看一个迟迟不来的东西，两次之间睡眠。
loop-waits-for-file-lock = 它在那里等另一个进程持有的文件锁。
loop-calls-model = 模型在那里多次被无梯度地调用，例如智能体在行动，或在做评估。
if-not-meant = 如果这不是有意为之：降低频率，只在 rank 0 上做，或放到后台进程；检查点异步保存。用 `with loaderwatch.phase("…")` 包起来，页面就会按名字显示它。

## 越来越长的训练步

script-work-grows =
    .title = { slow-step-who }有 { PERCENT($share_ratio) } 的时间损失在脚本自身逐步增长的工作上{ lately-at }：{ DURATION($span_s) }前每步 { DURATION($first_s) }，现在 { DURATION($last_s) }；原因不在数据加载器。
    .cause = 现在一步需要 { DURATION($step_s) }。其中既不属于模型也不属于优化器的部分从 { DURATION($first_s) }持续升到 { DURATION($last_s) }，而模型和优化器没有变慢。
    .advice = 找出随每步增长的东西：对至今所有批次计算的指标、每次重新遍历或重写的列表或日志。改用累计值，只看最新的部分，或每个 epoch 做一次。

model-pass-grows =
    .title = { slow-step-who }有 { PERCENT($share_ratio) } 的时间损失在模型逐步变慢的前向与反向上{ lately-at }，而批次大小没变：{ DURATION($span_s) }前为 { DURATION($first_s) }，现在 { DURATION($last_s) }；原因不在数据加载器。
    .cause = 现在一步需要 { DURATION($step_s) }。模型的前向与反向从 { DURATION($first_s) }持续升到 { DURATION($last_s) }，其余部分没有变慢。
    .advice = 找出模型不断累积的东西：一再注册的 hook、它保留的列表或 memory bank、一直连到先前各步的计算图。移除 hook 的 handle，限制 bank 的大小，对保留的张量调用 detach。有意逐步增大的模型不在此列。

steps-grow =
    .title = { slow-step-who }有 { PERCENT($share_ratio) } 的时间损失在越来越长的训练步上{ lately-at }，而批次大小不变：{ DURATION($span_s) }前为 { DURATION($first_s) }，现在为 { DURATION($last_s) }；数据加载器不是原因。
    .cause = 训练步从 { DURATION($first_s) }持续升到 { DURATION($last_s) }，其中优化器的部分没有变长。没有监视模型，因此无法把模型的计算与其余部分分开。
    .advice = 查找逐步累积的东西：仍带着计算图的张量（请 detach()）、retain_graph=True、反复注册的钩子、每一步都要遍历的列表。把 model= 传给 loaderwatch.attach()，就能看出是哪一部分在变长。
