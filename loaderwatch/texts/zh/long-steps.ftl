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
    .advice = 初始化完成后调用一次 gc.collect() 和 gc.freeze()，之后的回收就会跳过长期存活的对象。或者调用 gc.disable()，每隔几百步调用一次 gc.collect(1)，所有 rank 在同一步进行。

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
new-shapes-compile = 每遇到新的输入形状都要多花时间：torch.compile 重新编译，cudnn.benchmark 重新试 kernel，CUDA graph 重新录制，分配器申请新的块。平常一步耗时 { DURATION($usual_s) }。原因不在加载器。{ $seen_compiling ->
        [yes] 长步的调用栈显示编译器在工作{ KNOWN($at) ->
                [yes] ，调用自 { $at }
               *[no] { "" }
            }。
       *[no] { "" }
    }
keep-shapes = 保持形状不变：设 drop_last=True，或填充到少数几档长度。尺寸多变时用 torch._dynamo.mark_dynamic 和 cudnn.benchmark=False。TORCH_LOGS=recompiles 会指出是哪个 guard 失效。

padded-batches =
    .title = { spends-in-long-steps }，这些步的批次约为平常的 { DECIMAL($times) } 倍大。
    .cause = 平常一步需要 { DURATION($usual_s) }。通常起因是一个很长的样本：同一批次的所有样本都被填充到同样的长度。原因不在数据加载器。
    .advice = 把长度相近的样本放进同一批次（在缓冲区内排序），限制批次填充后的大小，或截断特别长的样本。

own-work-in-steps =
    .title = { spends-with-rhythm }；原因不在数据加载器。
    .cause = { loop-does-something }
    .advice = { if-not-meant }
polling-in-steps =
    .title = { spends-with-rhythm }；原因不在数据加载器。
    .cause = { loop-does-something }{ loop-polls }
    .advice = 查清循环在轮询什么、它为什么来得晚。用通知代替轮询（barrier、事件、队列），或轮询得更勤。{ if-not-meant }
file-lock-in-steps =
    .title = { spends-with-rhythm }；原因不在数据加载器。
    .cause = { loop-does-something }{ loop-waits-for-file-lock }
    .advice = 用 `lslocks` 找出持有锁的进程，缩短它持有锁的时间。或者用 LOCK_NB 取锁，取不到就继续往下做。{ if-not-meant }
model-acts-in-steps =
    .title = { spends-with-rhythm }；原因不在数据加载器。
    .cause = { loop-does-something }{ loop-calls-model }
    .advice = { if-not-meant }
unattached-loader-in-steps =
    .title = { spends-with-rhythm }，在读取一个未接入的 DataLoader。
    .cause = { loop-does-something }{ $there ->
            [polling] { loop-polls }
            [file-lock] { loop-waits-for-file-lock }
            [model-acts] { loop-calls-model }
           *[own-work] { "" }
        }
    .advice = 把那个加载器也接上：loaderwatch.attach(loader, role="eval")。loaderwatch 就会单独测量它的等待并给出建议。{ if-not-meant }
spends-with-rhythm = { spends-in-long-steps }{ KNOWN($every) ->
        [yes] ，每 { $every } 步一次
       *[no] { KNOWN($every_s) ->
            [yes] ，每 { DURATION($every_s) }一次
           *[no] { "" }
        }
    }{ lately-at }
lately-at = { KNOWN($at) ->
        [yes] ，见于 { $at }
       *[no] { "" }
    }
loop-does-something = 平常一步耗时 { DURATION($usual_s) }。在长步里，循环没有在等已接入的加载器，而是在做额外的工作，例如写日志、算指标、画图、评估或存检查点。
loop-polls = 循环在轮询一个迟迟不来的东西，两次之间睡眠。
loop-waits-for-file-lock = 循环在等另一个进程持有的文件锁。
loop-calls-model = 循环多次无梯度地调用模型，智能体行动或做评估时就是这样。
if-not-meant = 降低这项工作的频率，只在 rank 0 上做，或放到后台进程；检查点异步保存。如果这项工作是有意为之，用 `with loaderwatch.phase("…")` 包起来，页面就会按名字显示它。

## 越来越长的训练步

script-work-grows =
    .title = { slow-step-who }有 { PERCENT($share_ratio) } 的时间损失在不断增长的脚本工作上：{ DURATION($span_s) }内每步 { DURATION($first_s) } → { DURATION($last_s) }{ lately-at }；原因不在数据加载器。
    .cause = 现在一步需要 { DURATION($step_s) }。其中的脚本部分（既不属于模型也不属于优化器）从 { DURATION($first_s) }持续升到 { DURATION($last_s) }。模型和优化器没有变慢。
    .advice = 查找随每步增长的工作：对至今所有批次计算的指标、每次完整重读或重写的列表或日志。改用累计值，只处理最新的部分，或每个 epoch 做一次。

model-pass-grows =
    .title = { slow-step-who }有 { PERCENT($share_ratio) } 的时间损失在变慢的模型前向与反向上（批次大小不变）：{ DURATION($span_s) }内 { DURATION($first_s) } → { DURATION($last_s) }{ lately-at }；原因不在数据加载器。
    .cause = 现在一步需要 { DURATION($step_s) }。模型前向与反向的时间从 { DURATION($first_s) }持续升到 { DURATION($last_s) }，其余部分没有变慢。
    .advice = 查找模型不断累积的数据：一再注册的 hook、越来越长的列表或 memory bank、一直连到先前各步的计算图。移除 hook 的 handle，限制 bank 的大小，对保留的张量调用 detach。如果模型是有意增大的，忽略此条。

steps-grow =
    .title = { slow-step-who }有 { PERCENT($share_ratio) } 的时间损失在变慢的训练步上（批次大小不变）：{ DURATION($span_s) }内 { DURATION($first_s) } → { DURATION($last_s) }{ lately-at }；原因不在数据加载器。
    .cause = 一步的时间从 { DURATION($first_s) }持续升到 { DURATION($last_s) }，其中优化器的部分没有变长。loaderwatch 不知道模型是哪个，因此无法测量模型的部分。
    .advice = 查找跨步保留的数据：仍带着计算图的张量（请 detach()）、retain_graph=True、每一步都要读的列表。也查找反复注册的 hook。把 model= 传给 loaderwatch.attach()，就能看出是哪一部分在变长。
