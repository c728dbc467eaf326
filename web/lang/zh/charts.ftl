### 图表上的文字：线和柱的名称、坐标轴标签，以及指针处的读数。

## 一步的组成

step-part = { $part ->
        [data_wait_s] 数据等待
        [hidden_s] GPU 工作时的等待
        [h2d_s] H2D 拷贝
        [forward_s] 前向
        [backward_s] 反向
        [optimizer_s] 优化器
        [others_wait_s] 等其他 rank
        [whole] 训练步
       *[other_s] 其他
    }
chart-ms-read = { $value } 毫秒

## 速度，以及发生过的事

chart-steps-per-s = 步/秒
chart-samples-per-s = 样本/秒
chart-steps-per-s-read = { $value } 步/秒
chart-samples-per-s-read = { $value } 样本/秒
event-kind = { $kind ->
        [alert] 告警
        [attempt] 启动
        [config] 设置
        [checkpoint] 检查点
       *[evaluation] 评估
    }
event-kind-short = { $kind ->
        [alert] 告警
        [attempt] 启动
        [config] 设置
        [checkpoint] 保存
       *[evaluation] 评估
    }
event-read = { event-kind }：{ $text }{ $number ->
        [0] { "" }
        [1] （rank { $rank }）
       *[other] （{ $number } 个 rank）
    }

## GPU

chart-utilization = 利用率
chart-compute-duty = 计算占比
chart-power = 功率
chart-percent-read = { $value }%
chart-queued = GPU 上排队的工作
chart-batches-ready = 就绪的批次数
chart-starved = 缺数据
chart-starved-read = { PERCENT($starved_ratio) }{ KNOWN($per_step_s) ->
        [yes] ，每步 { DURATION($per_step_s) }
       *[no] { "" }
    }
slowed-by = { $reason ->
        [hardware-slowdown] 硬件降频
        [hardware-thermal-slowdown] 硬件温度降频
        [software-thermal-slowdown] 软件温度降频
        [hardware-power-brake] 硬件功率制动
        [power-cap] 功率限制
       *[other] { $said }
    }
slowed-by-short = { $reason ->
        [hardware-slowdown] 硬件
        [hardware-thermal-slowdown] 硬件过热
        [software-thermal-slowdown] 过热
        [hardware-power-brake] 制动
       *[power-cap] 功率上限
    }

## 热力图

heat-metric = { $metric ->
        [data_wait_ratio] 数据等待
        [gpu_starved_ratio] GPU 缺数据
        [gpu_utilization_ratio] GPU 利用率
        [gpu_temperature_c] GPU 温度
        [steps_per_s] 每秒步数
        [iteration_s] 每次迭代耗时
        [fetch_s] 每次取数耗时
        [ready_batches] 就绪的批次
        [host_cpu_ratio] 主机 CPU
       *[worker_rss_bytes] worker 内存
    }
heat-host-worst = { $host }，最差：rank { $rank }

## worker 时间线

lane-fetch = 取数
lane-collate = 拼批
lane-slow-sample = 慢样本
lane-open-fetch = 进行中的取数
lane-late-fetch = 迟迟未完成的取数
lane-fetch-read = worker { $worker } · { $took }
lane-sample-read = 最慢样本 { $sample }：{ $took }
lane-collate-read = 拼批 { $took }
lane-fetching-read = worker { $worker } · 取数已 { DURATION($age_s) }
lane-open-sample-read = 样本 { $sample } 已 { DURATION($age_s) }

## 就绪的批次

chart-ready = 就绪
chart-out-of-order = 乱序
chart-batches-read = { $value } 个批次

## 小图表

counter-host-cpu = 主机 CPU
counter-host-cpu-about = 全部 CPU 的忙碌占比
counter-process-cpu = 训练进程 CPU
counter-process-cpu-about = 占单核的比例
counter-worker-cpu = worker CPU
counter-worker-cpu-about = 每个 worker 平均占单核的比例
counter-host-throttled = CPU 限流
counter-host-throttled-about = 被限流截断的 cgroup 周期占比
counter-host-psi-cpu = 压力：CPU
counter-host-psi-cpu-about = 有任务等 CPU 的时间
counter-host-psi-io = 压力：I/O
counter-host-psi-io-about = 有任务等存储的时间
counter-host-psi-memory = 压力：内存
counter-host-psi-memory-about = 有任务等内存的时间
counter-host-shm-used = /dev/shm 已用
counter-host-shm-used-about = worker 在此交付批次
counter-host-disk-read = 磁盘读取
counter-host-disk-read-about = 主机的所有设备
counter-host-memory-available = 可用内存
counter-host-memory-available-about = 主机上
counter-worker-rss = worker 内存
counter-worker-rss-about = 常驻内存，每个 worker 平均
counter-process-rss = 训练进程内存
counter-process-rss-about = 常驻内存
counter-gpu-memory = 显存
counter-gpu-memory-about = 已用，含其上所有进程
counter-gpu-process-memory = 本进程的显存
counter-gpu-process-memory-about = GPU 上
counter-gpu-process-sm = 为本进程计算
counter-gpu-process-sm-about = 时间占比；其余为空闲或被其他进程占用
counter-gpu-sm-clock = SM 时钟频率
counter-gpu-sm-clock-about = GPU 空闲或降频时会下降
counter-gpu-temperature = 温度
counter-gpu-temperature-about = GPU 的
counter-gpu-pcie-rx = PCIe 到 GPU
counter-gpu-pcie-rx-about = 批次经此拷贝
counter-gpu-pcie-tx = PCIe 从 GPU
counter-gpu-pcie-tx-about = 结果、检查点
counter-gpu-throttled = 降频
counter-gpu-throttled-about = 因过热或供电而降速的时间
