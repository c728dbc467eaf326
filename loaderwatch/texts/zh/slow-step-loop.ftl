### 什么让训练步变慢，而原因不在数据加载器：循环在模型计算之外做的事。

loop-lately-at = { KNOWN($line) ->
        [yes] ，最近位于 { $line }
       *[no] { "" }
    }

answers-awaited-in-steps =
    .title = { slow-step-who }有 { PERCENT($lost_ratio) } 的时间{ measured }花在等{ awaited }上，位于{ KNOWN($line) ->
            [yes] { " " }{ $line }
           *[no] 自己的代码里
        }：每次迭代 { DURATION($iteration_s) }里约有 { DURATION($lost_s) }；原因不在数据加载器。
    .cause = 在 { $looks } 次观察中，有 { PERCENT($lost_ratio) } 看到训练进程已经拿到批次，却停着等另一个进程或另一台机器应答，涉及 { $steps } 个不同的步。
    .advice = { need-no-answer }

data-made-in-loop =
    .title = { slow-step-who }有 { PERCENT($lost_ratio) } 的时间{ measured }花在训练循环自己准备数据上{ loop-lately-at }：{ DURATION($step_s) }中的 { DURATION($script_s) }。
    .cause = 这一行准备的是模型的输入。这段时间里循环既不在模型中，也不在优化器中，也没有 worker 提前准备数据。
    .advice = 让别的进程在模型计算时准备数据：把那段代码移进 Dataset，用带 num_workers 的 DataLoader 遍历，或由后台进程填充队列。

script-work-in-steps =
    .title = { slow-step-who }有 { PERCENT($lost_ratio) } 的时间{ measured }损失在脚本自身每一步的工作上{ loop-lately-at }：{ DURATION($step_s) }中的 { DURATION($script_s) }；原因不在数据加载器。
    .cause = 这部分既不在模型中，也不在优化器中，其调用栈都止于脚本自身的代码。
    .advice = 用张量来做，或只对部分批次、每隔几步做一次，或放到 worker 中。如果它是损失函数的一部分，那就属于模型。

code-beside-model =
    .title = { slow-step-who }有 { PERCENT($lost_ratio) } 的时间{ measured }花在模型之外自身的代码（如损失函数）上{ loop-lately-at }：{ DURATION($step_s) }中的 { DURATION($script_s) }；原因不在数据加载器。
    .cause = 这部分既不在模型中，也不在优化器中。其调用栈大多止于 PyTorch 的函数或睡眠，损失函数就是这样。
    .advice = 损失函数属于训练本身的工作。如果不是损失函数，就只对部分批次做，或每隔几步做一次。

optimizer-slowed-down =
    .title = { slow-step-who }有 { PERCENT($lost_ratio) } 的时间损失在比以前变慢的优化器步上{ loop-lately-at }：{ DURATION($since_s) }前为 { DURATION($quick_s) }，现在 { DURATION($optimizer_s) }，而模型的前向与反向几乎没有变慢；原因不在数据加载器。
    .cause = 现在一步需要 { DURATION($step_s) }。其中优化器部分的用时取决于参数，与批次无关：参数变多时会变慢；在 CPU 上，数值过于接近零（非规格化数，denormals）而计算缓慢时也会变慢。
    .advice = 在脚本开头调用 torch.set_flush_denormal(True)：不再得到梯度的参数（例如 embedding 的某些行）的动量平均值会衰减成非规格化数。否则请检查是否有参数被反复加入优化器。
