### 循环为什么等：存储、worker 通过网络请求的服务，以及页缓存。

fetches-slowed-down = 近 { DURATION($ago_s) }以来，{ readers } 的取数时间同时变为原来的 { RATE($factor) } 倍（{ DURATION($before_s) } → { DURATION($after_s) }），而计算量都没有增加
readers = { $workers ->
        [1] 该 worker
       *[other] 所有 worker
    }
storage-slowed-down =
    .because = { fetches-slowed-down }
    .cause = { readers } 的取数时间在同一时刻从 { DURATION($before_s) }变为 { DURATION($after_s) }，批次大小没变，CPU 也闲着（计算只占读取时间的 { PERCENT($cpu_ratio) }）：是存储变慢了。{ KNOWN($held_bytes) ->
            [yes] 读取被限制在每秒约 { SIZE($held_bytes) }。
           *[no] { "" }
        }突发额度用完、吞吐被限，或共享文件系统上有邻居抢带宽，都是这种表现。
    .advice = 检查存储卷的突发额度余额和上限（IOPS 与 MB/s）：调高配置，把数据拷到本地磁盘，或减少读取次数、每次多读一些。额度恢复后会自行好转。加 worker 也还是共用同一个上限。
answers-slowed-down =
    .because = { fetches-slowed-down }
    .cause = 所有 worker 的取数在同一时刻变慢，而批次大小没变、CPU 空闲：它们通过网络请求的服务比以前应答得慢，或者请求方式变了。{ KNOWN($line) ->
            [yes] worker { $worker } 被看到在 { $line }等它应答，见它的调用栈。
           *[no] { "" }
        }
    .advice = 看看那里变了什么：请求限流、重试、缓存过期、服务负载高。没有 TCP_NODELAY 时，分几次写出的请求每次要多等约 40 毫秒。一次请求多个样本；服务能并行应答时，增加 worker 才有用。
storage-stops =
    .because = 全部 { $workers } 个 worker 在同一时刻停住，{ times-so-far }，最长 { DURATION($longest_s) }，而且没有谁在计算
    .cause = 不是某个样本的问题：期间没有 worker 在计算，而且它们一起恢复。它们背后的存储或服务器不时对所有人停住。
    .advice = 看看这些时刻它们读取的来源：服务器的停顿、限制、重新连接的挂载。更大的 prefetch_factor 能扛住短暂停顿，本地副本能扛住全部。更多 worker 也会一起停住。
times-so-far = 至今 { $times } 次
read-amplification =
    .because = 每个 { SIZE($used_bytes) } 的样本，worker 要读 { SIZE($read_bytes) }，是实际用量的 { RATE($factor) } 倍
    .cause = 每个 { SIZE($used_bytes) } 的样本，worker 要读 { SIZE($read_bytes) }（总共每秒 { SIZE($rate_bytes) }），是最终进入批次的 { RATE($factor) } 倍，其中 { PERCENT($cpu_ratio) } 的时间花在计算上。随机访问大的压缩块（chunk）、行组（row group）或归档文件就会这样：为了一个样本要读出并解压整块。为了取一行而每次从头读文件，也会这样。
    .advice = 让存储的粒度与读取的粒度一致：每个 chunk 存一个样本（或按批次大小分 chunk），用不压缩或 LZ4 的容器，或按顺序读 chunk、在缓冲区里打乱（Hugging Face：flatten_indices() 或 to_iterable_dataset().shuffle()）。按行存的文件，记下每行的起始位置，直接 seek 过去。如果文件是大图或长录音，提前一次性裁剪或缩小。
page-cache-too-small =
    .because = 每个 epoch 都要重新从存储读取，每秒 { SIZE($read_bytes) }，因为页缓存装不下数据集
    .cause = 这已不是第一个 epoch，worker 仍每秒从存储读 { SIZE($read_bytes) }，其中每秒 { SIZE($evicted_bytes) } 原本在内存里、后来被逐出。数据集比留给页缓存的内存大，随机读取又总是逐出马上要用的数据：不会自己变快。
    .advice = 给任务更多内存（容器的内存上限包含页缓存）；如果内存被 worker 占用，就减少 worker；把样本存得更小，或打包成分片，顺序读取并配合打乱缓冲区。
page-cache-fills =
    .because = 等待正在变短（{ DURATION($early_s) } → { DURATION($late_s) }），像是第一个 epoch 在读冷存储
    .cause = 这是第一个 epoch，读取会越来越快：页缓存正在填充。如果数据集装得进内存，下一个 epoch 就会快。
    .advice = 先等第二个 epoch。如果还是等这么久，说明数据集装不进内存：把它拷到本地磁盘，或打包成顺序读取的分片。
dataset-fills-cache =
    .because = 第一个 epoch 里每读一个样本就写 { SIZE($written_bytes) }，像在填缓存
    .cause = 若以后的 epoch 读现在写下的内容，就会快。
    .advice = 等第二个 epoch。要省下第一个，就在训练前用全部 CPU 填好缓存。若不是缓存，看看每个样本写了什么。
first-epoch-was-cold =
    .because = 第一个 epoch 中几乎每个批次都要读约 { DURATION($cold_s) }{ KNOWN($since_s) ->
            [yes] ，此后为 { DURATION($since_s) }
           *[no] { "" }
        }，像是在读冷存储
    .cause = 到那时为止，{ PERCENT($slow_ratio) } 的批次都用了这么久，每个 worker 都一样，所以不是某个样本的问题：第一次读的数据来自存储（或正在填充数据集自己的缓存），之后就在内存里了。
    .advice = 如果后面的 epoch 一直很快，就不用处理；想省掉第一个 epoch 的等待，可以把数据拷到本地磁盘，或在训练前先读一遍。如果后面还等这么久，说明数据集装不进内存。
requests-time-out =
    .because = { PERCENT($limited_ratio) } 的读取用时 { DURATION($limit_s) }{ $once ->
            [yes] ，彼此几乎相同，快的只要
           *[no] 或其数倍，快的只要
        } { DURATION($quick_s) }
    .cause = worker 此时在等待{ awaited }，什么也不计算。每次用时相同的是时间限制：某个请求没有得到回答，限时过后再试一次才成功。{ KNOWN($line) ->
            [yes] worker { $worker } 停在 { $line }等待，见其堆栈。
           *[no] { "" }
        }
    .advice = 记录是哪台主机、哪个键或哪个文件没有回答，知道后就暂时避开它。缩短时限，或同时询问另一个来源，会让每次这样的等待变短。增加 worker 只会让它们并排等待。
live-source =
    .because = 数据源按固定节拍每 { DURATION($each_s) }给出一个批次，模型总是立刻取走
    .cause = worker 什么也不计算，只在等流的下一行，而且迟到的会被补上：实时数据源没有更多可给。每秒请求数的限制看起来也是这样。
    .advice = 如果数据源是实时的，就没有损失。如果是限制，就提高它，或者每次请求多取几行。增加 worker 也得不到更多。
