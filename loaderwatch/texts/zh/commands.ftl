### 命令行的帮助。

usage = 用法：
options = 选项
positional-arguments = 参数

command-arguments =
    .help = 显示这段帮助后退出
    .version = 显示版本号后退出
    .which = 运行的 id、运行的名称（取最新一次）、.duckdb 文件或 .lwrec 文件
    .data-dir = 运行数据存放的目录（默认 LOADERWATCH_DIR）
    .module = 目标是模块名
    .arguments = 脚本自己的参数
    .timeout = 脚本最多用多久走到训练加载器（秒，默认 120）

command =
    .about = 实时诊断 PyTorch 输入流水线的停顿。
command-serve = 显示页面，并接收训练任务发来的数据
    .about = loaderwatch serve：页面的服务器。
    .host = 监听地址（默认 127.0.0.1：只允许本机访问）
    .port = 端口（默认 { $default_port }，被占用时另选空闲端口；0：任意空闲端口）
    .token = 除 DIR/token.json 里的三个令牌外，再加一个拥有全部权限的令牌（默认 LOADERWATCH_TOKEN）
    .no-auth = 凡能连到该端口的人都放行：只应在你自己的访问控制后面使用
    .allow-host = 用户或训练进程访问本服务器时用的其他名称；可重复
    .public-url = 写进告警里的地址，用于别人不是通过本机地址打开页面的情况
    .ssl-certfile = 用此证书以 TLS 提供服务（PEM，后面附上直到 CA 的证书链）
    .ssl-keyfile = 对应的私钥（PEM，未加密）
    .notify = 把所有运行的告警发到这里（Apprise URL：Slack、邮件、webhook……）；可重复（默认 LOADERWATCH_NOTIFY，没有则用 DIR/config.toml
        的 notify 键；其他用户能在 ps 里看到此选项）
    .store = 把运行保存在 ClickHouse 中：clickhouse://user@host:8123/database（TLS 用 clickhouses://）；
        密码取自 { $password_variable } 或 ?password_file=PATH（默认：DIR 中的 DuckDB 文件）
    .advertise = 其他服务器访问本服务器时用的地址
    .retain-days = 删除 N 天没有任何上报的运行（默认：保留）
    .hang-after = 至少多久毫无进展才算卡死（秒，默认 30）
    .resume = 沿用此目录上那个被杀掉的服务器的启动选项继续运行（训练作业发现服务器不在了就会这样做）；之前没有服务器时，才用其余选项
    .idle-hours = N 小时内没有运行上报、也没有人查看就退出（默认：一直运行；由运行启动的服务器：
        LOADERWATCH_IDLE_HOURS，或 { PLAIN($idle_hours) }）；0：一直运行
command-stop = 结束显示页面的服务器
    .about = 停止本机此数据目录的服务器（不论由谁启动），并等到它退出。已记录的数据会保留；
        下一次运行或 loaderwatch serve 会再启动一个服务器，令牌不变。
    .force = 即使有运行正在上报也停止；那次运行会在一分钟内再启动一个服务器
command-demo = 在本机上跑一遍引导演示，不需要 GPU
    .about = 在两个 rank 上训练一个小型 CNN，让它以六种方式出问题，在页面上看它解释原因。约三分钟，不需要 GPU。
    .fast = 缩短各幕，约一分钟
    .acts = 只跑这些：{ $acts }
    .port = 页面的端口（默认 { $default_port }，被占用则用空闲端口）
    .data-dir = 把图片、日志和运行保存在此处（默认：LOADERWATCH_DIR/demo，否则用结束时会删除的文件夹）
    .open = 在浏览器中打开页面
    .keep = 训练结束后保留页面，直到 Ctrl-C
    .exit = 等同于 --no-keep
command-run = 运行脚本并接入其中所有 DataLoader，无需改动脚本
    .about = 运行脚本、模块或命令，所有 DataLoader 从第一次迭代起就被接入，效果等同于 loaderwatch.attach()。
        命令（写在 -- 之后）可以是任意启动器：torchrun、accelerate、srun、shell 脚本。
        退出码就是脚本自己的退出码。
    .name = 运行的名称（LOADERWATCH_RUN）
    .redact = 数据离开本机之前，先替换路径、参数和消息（LOADERWATCH_REDACT）
    .on-alert = 每条告警执行一次的 shell 命令，告警以 JSON 从标准输入传给它
    .restart-on-hang = 作业卡死时结束它，并用同样的命令重新启动，最多 N 次
    .after = 卡死多久才这样做：30s、10m（默认）、2h
    .restart-pause = 第一次重启前的等待时间（默认 10s）；每次翻倍，最长 10m
    .keep-output = stdout、stderr 写入文件时，崩溃时附上它们的最后 20 行
    .cached-batches = 读取 N 个批次，然后反复用它们训练：完美加载器下的速度
command-runs = 列出本机已知的运行
    .about = loaderwatch runs：这里已知的各次运行。
    .json = 输出 JSON，而不是表格
    .server = 只显示哪个服务器在运行、到什么时候为止（配合 --json：没有则为 null）
command-analyze = 打印检测器在一次运行中的发现
    .about = loaderwatch analyze：检测器在一次运行里发现了什么，运行中或已结束都可以。
    .attempt = 对以同名重新启动过的运行，取第 N 次；不指定则取最新一次
    .hang-after = 按此上限重新判断已存储的运行或录制文件（见 serve）；服务器按自己的上限判断
    .redact = 同 export；若运行在服务器上，则取其最近一小时
    .what-if = 同时给出加载器的其他设置会带来什么，用最近的测量值推演
    .json = 按 API 的格式输出发现；与 --what-if 一起时输出设置
command-compare = 打印两次运行之间的变化
    .about = 比较运行 B 与运行 A（各取除开头外的全程）：配置改了什么，速度、等待和 epoch 边界变了多少，每项都给出 95% 区间以及是否超出噪声。指标：{ $measures }。
    .a = { command-arguments.which }
    .b = { command-arguments.which }
    .fail-if = 条件成立时以 1 退出：'data_wait_ratio > 0.1' 针对 B，'steps_per_s.change < -5%' 针对 B 相对 A
        的变化（仅在超出噪声时）；可重复给出，指标未知也算失败
    .json = 按 API 的格式打印比较结果
command-stacks = 立即抓取一次运行中各进程的调用栈，或显示损失的时间花在哪些代码行
    .about = 立即向一次运行的各个 streamer 索取调用栈，等它们返回后，打印每个训练进程和 DataLoader worker 的调用栈，
        最近的调用在最前。训练不会停下。如果服务器在另一台机器上，
        需要 owner 令牌（LOADERWATCH_PAGE_TOKEN）。加 --profile 则根据运行期间采样的调用栈，打印损失的时间花在哪些代码行。
    .which = 运行的 id，或运行的名称（取同名中最新的一次）；加 --profile 时也可以是 .duckdb 或 .lwrec 文件
    .rank = 只看这个 rank 的进程
    .within = 等待一个进程应答的时间（秒，默认 10）
    .profile = 显示采样最多的代码行、它们在等什么，以及每个样本或批次的用时
    .of = --profile 要看的训练部分（默认是损失时间最多的部分）
    .format = 改为输出可画火焰图的调用栈：collapsed（flamegraph.pl）或 speedscope（www.speedscope.app）
    .output = 写入这个文件，而不是标准输出
    .json = 按 API 的格式输出剖析
command-export = 把一次运行最近的部分写入文件
    .about = loaderwatch export：把一次运行的最新部分存成一个小文件，便于给别人看。用 loaderwatch analyze FILE 读取。
        其中有页面显示的内容：脚本、参数、路径、主机名和调用栈；加 --redact 会把它们替换掉，只留下数字、行号，以及函数名和类名。
    .file = 写到哪个文件，例如 stalled.lwrec
    .redact = 替换路径、参数、消息，以及主机和运行的名称
    .last = 导出末尾多长一段（秒，默认 600；服务器正在管理的运行最多 3600）
    .whole = 已结束运行的全部内容，用于搬移：loaderwatch import
command-import = 把录制的运行导入存储
    .about = loaderwatch import：把录制的运行完整导入正在运行的服务器的存储，或导入数据目录。接受 loaderwatch export
        和页面下载的录制文件（.lwrec），以及不带 --store 的服务器保存的 .duckdb 文件。已存在的运行保持不变。
    .files = .lwrec 或 .duckdb 文件、存放它们的目录，或 'runs/*.duckdb' 这样的模式
command-doctor = 在脚本训练之前体检其配置，或体检一次运行
    .about = 给一份配置做体检。目标是 SCRIPT 时：运行它（不训练），直到训练加载器给出第一个批次，
        像 worker 那样读几个样本，然后指出哪些地方会耗时、失败或卡死。目标是 RUN（id 或名称）时：
        根据这次运行的已知信息做同样的检查。退出码 0：不需要改；1：有警告或更严重的问题，或脚本失败；2：用法错误。
    .ranks = 在本机以 N 个 rank 运行脚本，带上 torchrun 的环境变量
    .json = 以 JSON 输出建议
command-tune = 不训练，直接试脚本中加载器的各种设置
    .about = 运行 SCRIPT（不训练），直到训练加载器给出第一个批次。用不同的 worker 数和预取系数读取该加载器，
        打印能喂饱设备的最小设置及其内存占用。按 Ctrl-C 会打印目前已得到的结果。退出码 0：找到了设置；1：没找到；2：用法错误。
    .seconds = 总共大约可用多久（秒，默认 60），其中至少一半用于尝试
    .step-ms = 一个训练步的耗时；不给则寻找最快的设置，可能超出实际需要
    .apply-env = 让下一次对同一脚本的 loaderwatch run 以找到的设置启动，只此一次
    .json = 以 JSON 输出试验结果和建议
command-notify = 测试接收告警的地址是否可用
    .about = loaderwatch notify test：给每个会收到告警的地址发一条消息。
command-notify-test = 向每个地址发送一条消息
    .about = 向每个地址发送一条消息：命令行给出的地址，没有则用 LOADERWATCH_NOTIFY 的，再没有则用 DIR/config.toml 中 notify 键的。
        不受免打扰时段和严重级别的影响。退出码：0 全部送达；1 有未送达的；2 地址或文件不可用，
        或者一个地址也没有。
    .addresses = Apprise URL（其他用户能在 ps 里看到它；写在环境变量或文件里则看不到）
command-config = 显示每项设置及其值的来源
    .about = loaderwatch config：每项设置的值，以及该值的来源。
    .json = 输出 JSON，而不是表格
command-rules = 列出检测结果可能给出的所有原因
    .about = loaderwatch rules：检测结果可能给出的所有原因。给出 RULE 时，还会列出它的阈值，以及它能解释的其他检测结果。
    .rules = 规则（"too-few-workers"）、类别（"input-bound"）或场景（"S02"）
    .thresholds = 输出检测器的所有阈值及其单位和来源，包括不属于任何一条规则的阈值
    .json = 输出 JSON，包括阈值和解释关系
command-token = 管理服务器的令牌
    .about = loaderwatch token rotate：给一个数据目录的服务器换新令牌。
command-token-rotate = 写入新令牌；正在运行的服务器会立即启用新令牌并拒绝旧令牌
    .about = 写入新令牌。正在运行的服务器会启用新令牌并拒绝旧令牌：所有浏览器都要重新登录。本机上的训练作业会自动继续；其他机器上的需要新的 agent 令牌。
