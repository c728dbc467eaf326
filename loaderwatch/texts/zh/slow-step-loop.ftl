### 什么让训练步变慢，而原因不在数据加载器：循环在模型计算之外做的事。

loop-lately-at = { KNOWN($line) ->
        [yes] ，见于 { $line }
       *[no] { "" }
    }

answers-awaited-in-steps =
    .title = { slow-step-who }有 { PERCENT($lost_ratio) } 的时间{ measured }在等{ awaited }，位于{ KNOWN($line) ->
            [yes] { " " }{ $line }
           *[no] 自己的代码里
        }：每次迭代 { DURATION($iteration_s) }中的 { DURATION($lost_s) }；原因不在数据加载器。
    .cause = 在 { $looks } 次调用栈检查中，有 { PERCENT($lost_ratio) }（涉及 { $steps } 个不同的步）显示训练进程已经拿到批次，却在等另一个进程或另一台机器。
    .advice = { need-no-answer }

data-made-in-loop =
    .title = { slow-step-who }有 { PERCENT($lost_ratio) } 的时间{ measured }损失在训练循环自己准备数据上{ loop-lately-at }：每步 { DURATION($step_s) }中的 { DURATION($script_s) }。
    .cause = 这一行生成模型的输入。这段时间里模型和优化器都不工作，也没有 worker 准备数据。
    .advice = 把那段代码移进 Dataset，用带 num_workers 的 DataLoader 遍历，或由后台进程填充队列。这样数据就能在模型计算的同时准备好。

script-work-in-steps =
    .title = { slow-step-who }有 { PERCENT($lost_ratio) } 的时间{ measured }损失在脚本代码上{ loop-lately-at }：每步 { DURATION($step_s) }中的 { DURATION($script_s) }；原因不在数据加载器。
    .cause = 这段代码既不在模型中，也不在优化器中，每一步都会运行。它的调用栈止于脚本。
    .advice = 这项工作改用张量来做，或只对部分批次、每隔几步做一次，或放到 worker 中。如果它属于损失函数，忽略此条。

code-beside-model =
    .title = { slow-step-who }有 { PERCENT($lost_ratio) } 的时间{ measured }花在模型之外（例如损失函数）{ loop-lately-at }：每步 { DURATION($step_s) }中的 { DURATION($script_s) }；原因不在数据加载器。
    .cause = 这段代码既不在模型中，也不在优化器中。它的调用栈大多止于 PyTorch 的函数或睡眠，损失函数通常如此。
    .advice = 如果这段代码就是损失函数，忽略此条。否则只对部分批次做，或每隔几步做一次。

optimizer-slowed-down =
    .title = { slow-step-who }有 { PERCENT($lost_ratio) } 的时间损失在变慢的优化器上：{ DURATION($since_s) }内每步 { DURATION($quick_s) } → { DURATION($optimizer_s) }{ loop-lately-at }；原因不在数据加载器。
    .cause = 现在一步需要 { DURATION($step_s) }；模型的前向与反向几乎没有变慢。优化器的用时取决于参数，与批次无关：参数变多时会变慢；在 CPU 上，数值非常接近零（非规格化数，denormals）而计算缓慢时也会变慢。
    .advice = 在脚本开头调用 torch.set_flush_denormal(True)。没有梯度的参数（例如用不到的 embedding 行）的平均值会衰减成非规格化数。否则请检查是否有参数被反复加入优化器。
