### 演示：它打印的内容，以及各幕。

demo-page = 页面：{ $url }
demo-images = { $images } 张手写数字图片在 { $folder }
demo-gpus = { $gpus } 个模拟 GPU，每个 rank 一个，执行该 rank 启动的任务
demo-without-gpus = GPU 图表已关闭：{ $why }
demo-ended = 演示结束。
demo-page-stays = 页面保留在 { $url }，直到按 Ctrl-C。
demo-act = { "[" }{ $number }/{ $acts }] { $act }：{ $what }。
demo-look = 请看：{ $look }。
demo-act-played = { WHOLE($took_s) } 秒；{ WHOLE($right_percent) }% 的数字识别正确

## 结尾的表格

demo-columns =
    .act = 幕
    .expected = 预期
    .found = 发现
demo-either = { $one } 或 { $other }
demo-nothing = 无
demo-right = { $right ->
        [yes] 正确
       *[no] 不符
    }

## 各幕：发生什么，看哪里

act-healthy = 一段正常的训练
    .what = 每个 rank 两个 worker，跟得上模型；应当什么也不会发现
    .look = 结论为正常，时间线几乎全是前向和反向，数据等待接近 0%
act-few-workers = worker 太少
    .what = 图片改从很慢的远端存储读取：worker 准备一个批次的时间是模型一步的五倍
    .look = 梳齿状的等待（每隔一步一次）、锯齿状的 GPU 利用率，以及建议的 worker 数
act-slow-sample = 一个慢样本
    .what = 有一张图片要读 3.5 秒；其他批次都排在它后面等
    .look = 已有就绪的批次却出现的孤立长等待，以及 rank 页面上那张慢图片的索引
act-epoch-restart = 重启 worker 的 epoch 边界
    .what = epoch 很短，而且每个都重新启动 worker（spawn，persistent_workers=False）
    .look = epoch 色带：每个 epoch 之前有几秒在启动 worker，以及 persistent_workers=True 能省下多少
act-sawtooth = 与加载器无关的锯齿
    .what = 数据按时到达，但每十步训练循环自己要等 GPU 并保存预览，耗时 0.6 秒
    .look = GPU 利用率上下摆动而数据等待接近 0%，告警指出训练循环里的那一行
act-hang = 一个卡死的 worker
    .what = 一次读取 { PLAIN($hang_s) } 秒没有响应；之后 worker 恢复，训练继续
    .look = 卡住期间的告警：rank、worker、pid、样本索引，以及指明阻塞行的调用栈
