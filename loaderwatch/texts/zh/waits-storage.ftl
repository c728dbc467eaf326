### 循环为什么等：存储、worker 通过网络请求的服务，以及页缓存。

fetches-slowed-down = { DURATION($ago_s) }前，{ readers } 的取数时间变为原来的 { RATE($factor) } 倍（{ DURATION($before_s) } → { DURATION($after_s) }），CPU 时间没有增加
readers = { $workers ->
        [1] 该 worker
       *[other] 所有 worker
    }
storage-slowed-down =
    .because = { fetches-slowed-down }
    .cause = { readers } 的取数时间在同一时刻从 { DURATION($before_s) }变为 { DURATION($after_s) }，批次没有变大，CPU 也闲着（CPU 时间只占读取时间的 { PERCENT($cpu_ratio) }），所以是存储变慢了。{ KNOWN($held_bytes) ->
            [yes] 读取一直保持在每秒约 { SIZE($held_bytes) }。
           *[no] { "" }
        }可能的原因：突发额度用完、吞吐受限，或共享文件系统上有其他用户。
    .advice = 检查存储卷的突发额度余额和上限（IOPS 与 MB/s）。然后调高配置，把数据拷到本地磁盘，或减少读取次数、每次多读一些。突发额度恢复后速度也会恢复。加 worker 也还是共用同一个上限。
answers-slowed-down =
    .because = { fetches-slowed-down }
    .cause = 所有 worker 的取数在同一时刻变慢，而批次没有变大、CPU 空闲。所以是 worker 通过网络请求的服务应答变慢了，或者请求方式变了。{ KNOWN($line) ->
            [yes] worker { $worker } 当时在 { $line }等应答（见它的调用栈）。
           *[no] { "" }
        }
    .advice = 查清该服务有什么变化：请求限流、重试、缓存过期、负载变高。没有 TCP_NODELAY 时，分几段发出的请求每段要多等约 40 毫秒。一次请求多个样本。服务能并行应答时，增加 worker 才有用。
storage-stops =
    .because = 全部 { $workers } 个 worker 一起停住，{ times-so-far }，最长 { DURATION($longest_s) }，期间不占用 CPU
    .cause = 不是某个样本的问题：所有 worker 一起停住、一起恢复，期间都不计算。是存储或其服务器不时停顿。
    .advice = 检查这些时刻数据集所在的存储：服务器停顿、限制、重新连接的挂载。更大的 prefetch_factor 能扛住短暂停顿，本地副本能避免所有停顿。更多 worker 也会一起停住。
times-so-far = 至今 { $times } 次
read-amplification =
    .because = 每个 { SIZE($used_bytes) } 的样本，worker 要读 { SIZE($read_bytes) }，是实际用量的 { RATE($factor) } 倍
    .cause = 每个 { SIZE($used_bytes) } 的样本，worker 要读 { SIZE($read_bytes) }（总共每秒 { SIZE($rate_bytes) }），是最终进入批次的 { RATE($factor) } 倍，读取时间的 { PERCENT($cpu_ratio) } 花在计算上。典型原因是随机访问大的压缩块（chunk）、行组（row group）或归档文件：为了一个样本要读出并解压整块。另一个原因是为了取一行而每次从头读文件。
    .advice = 每个 chunk 只存一个样本（或一个批次的样本），用不压缩或 LZ4 的容器。或按顺序读 chunk，在缓冲区里打乱（Hugging Face：flatten_indices() 或 to_iterable_dataset().shuffle()）。按行存的文件，记下每行的起始位置，直接 seek 过去。大图或长录音提前一次性裁剪或缩小。
page-cache-too-small =
    .because = 页缓存装不下数据集，每个 epoch 都要重新从存储读取，每秒 { SIZE($read_bytes) }
    .cause = 这已不是第一个 epoch，worker 仍每秒从存储读 { SIZE($read_bytes) }，其中每秒 { SIZE($evicted_bytes) } 原本在内存里、后来被逐出。数据集比留给页缓存的内存大。随机读取时，样本还没再次用到就被逐出，所以以后的 epoch 不会更快。
    .advice = 给任务更多内存（容器的内存上限包含页缓存）；如果内存被 worker 占用，就减少 worker；把样本存得更小，或打包成分片，顺序读取并配合打乱缓冲区。
page-cache-fills =
    .because = 等待正在变短（{ DURATION($early_s) } → { DURATION($late_s) }），像是第一个 epoch 在读冷存储
    .cause = 这是第一个 epoch，读取会越来越快：页缓存正在填充。如果数据集装得进内存，下一个 epoch 就会快。
    .advice = 先等第二个 epoch。如果还是等这么久，说明数据集装不进内存：把它拷到本地磁盘，或打包成顺序读取的分片。
dataset-fills-cache =
    .because = 第一个 epoch 里每读一个样本就写 { SIZE($written_bytes) }，像在填缓存
    .cause = 若以后的 epoch 读现在写下的内容，就会快。
    .advice = 等第二个 epoch。要加快第一个，就在训练前用全部 CPU 填好缓存。如果数据集没有缓存，就查清它为每个样本写了什么。
first-epoch-was-cold =
    .because = 第一个 epoch 中几乎每个批次都要读约 { DURATION($cold_s) }{ KNOWN($since_s) ->
            [yes] ，此后为 { DURATION($since_s) }
           *[no] { "" }
        }，像是在读冷存储
    .cause = 到最后一次长等待为止，{ PERCENT($slow_ratio) } 的批次都用了差不多这么久，每个 worker 都一样，所以不是某个样本的问题。样本第一次要从存储读取（或填充数据集自己的缓存），之后就在内存里了。
    .advice = 等下一个 epoch。如果它很快，就不用改；想加快第一个 epoch，可以把数据拷到本地磁盘，或在训练前先读一遍。如果它还等这么久，说明数据集装不进内存。
requests-time-out =
    .because = { PERCENT($limited_ratio) } 的取数用时{ $once ->
            [yes] 几乎正好 { DURATION($limit_s) }
           *[no] { " " }{ DURATION($limit_s) }或其数倍
        }，其余只要 { DURATION($quick_s) }
    .cause = 在这些取数中，worker 等待{ awaited }，什么也不计算。用时相同说明是超时：请求没有得到应答，超时后又重试。{ KNOWN($line) ->
            [yes] worker { $worker } 当时在 { $line }等待（见其堆栈）。
           *[no] { "" }
        }
    .advice = 记录是哪台主机、哪个键或哪个文件没有应答，超时后在一段时间内跳过它。缩短超时，或并行询问第二个来源，能缩短每次等待。增加 worker 只会让它们一起等。
live-source =
    .because = 数据源按固定速率每 { DURATION($each_s) }交付一个批次，模型总是立刻取走
    .cause = worker 什么也不计算，只在等数据流的下一个样本。样本迟到后，后面的会来得更快，所以数据源保持固定速率：实时数据源没有更多数据可给。每秒请求数的限制看起来也是这样。
    .advice = 如果数据源是实时的，就不用改：每个样本一到，训练就取走。如果是限制，就提高限制，或每次请求多取几个样本。增加 worker 也得不到更多数据。
