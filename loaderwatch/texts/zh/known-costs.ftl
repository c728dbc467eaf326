### 已知开销：采样到的代码行在调用什么（meaning），以及应当怎样改（advice）。detect/known_costs.py 的每一行对应一条消息。

## 每个样本都要打开、查找或读取的容器和文件

zip-reopened =
    .meaning = `ZipFile()` 每次打开文件时都会读取整个归档的目录。
    .advice = 每个 worker 只打开一次归档：让 `__getitem__` 在第一次调用时创建 `ZipFile` 并存为属性。这样目录只读一次，而不是每个样本读一次。
zip-member-decompressed =
    .meaning = zipfile 在解压成员并计算校验和。
    .advice = 用 `ZIP_STORED` 重新写归档。JPEG、PNG 和大多数音频本来就已压缩，再解压只费时间，不省空间。
tar-reopened =
    .meaning = tarfile 为每个样本打开归档，并先判断它的压缩格式。
    .advice = 每个 worker 只打开一次归档：在第一次 `__getitem__` 时打开并存为属性。指明模式，例如未压缩的文件用 `mode="r:"`，就不必尝试其他格式。
tar-scanned =
    .meaning = tarfile 为了找一个成员而读取所有成员的头部，因为 tar 文件没有目录。
    .advice = 预先保存一份索引：每个成员的名称、`TarInfo.offset_data` 和 `TarInfo.size`。然后在未压缩的文件里用 `seek` 直接读这些字节，或按成员顺序读取。
tar-member-searched =
    .meaning = `TarFile` 对每个名称都从末尾起逐个查找成员列表。
    .advice = 每个 worker 建一次从名称到 `TarInfo` 的 dict，并把 `TarInfo` 传给 `extractfile`。这样查找时间不再随归档变大而变长。
hdf5-reopened =
    .meaning = h5py 为每个样本打开或关闭文件，其 chunk 缓存也随之清空。
    .advice = 每个 worker 只打开一次 `h5py.File`：在第一次 `__getitem__` 时打开并存为属性。不要在 `__init__` 里打开：fork 出的 worker 不能共用它。
hdf5-object-looked-up =
    .meaning = h5py 为每个样本按名称查找组、数据集或属性。
    .advice = 把 `Dataset` 对象存在 worker 的 dict 里。如果每个样本各是一个数据集，就把所有样本存进同一个数据集，第一维是样本。
hdf5-chunk-read =
    .meaning = h5py 在读数据集，选区碰到的每个 chunk 都要读出并解压。
    .advice = 让一个 chunk 正好存一个样本，不压缩或用 LZ4。在 `__getitems__` 里用一次切片读整个批次，因为 h5py 每次调用都有固定开销。
zarr-reopened =
    .meaning = zarr 为每个样本打开存储，并重新读取元数据。
    .advice = 每个 worker 只打开一次数组并存为属性。远程存储上的组，先调用一次 `zarr.consolidate_metadata`，之后打开只需一次请求。
zarr-chunk-read =
    .meaning = zarr 在读数组，选区碰到的每个 chunk 都要加载并解压。
    .advice = 让一个 chunk 正好存一个样本，并用 LZ4 这样的快速编码。远程存储上，在 `__getitems__` 里读整个批次：zarr 会同时请求各个 chunk。
parquet-file-read =
    .meaning = 在读取并解码整个 Parquet 文件。
    .advice = 每个 worker 保留一个 `pyarrow.parquet.ParquetFile`，用 `read_row_group` 读行组，用 `columns=` 只读需要的列。如果内存放得下，就一次性转换为数组。
parquet-reopened =
    .meaning = pyarrow 打开 Parquet 文件并解析文件尾，其中描述了每个行组的每一列。
    .advice = 每个 worker 为每个文件保留一个 `ParquetFile`。如果必须重新打开，就传入第一次得到的 `metadata`，避免再次解析文件尾。
parquet-row-group-read =
    .meaning = 即使只用一行，pyarrow 也要读出并解码整个行组。
    .advice = 读一次行组就用完其中所有的行：使用带打乱缓冲区的 `IterableDataset`。需要随机访问时，写更小的行组（`row_group_size`），并传入 `columns=`。
xarray-reopened =
    .meaning = xarray 为每个样本打开数据集，并重新建立坐标和索引。
    .advice = 每个 worker 只打开一次数据集并存为属性。在 `__getitem__` 里直接取数组，例如 `ds["x"].variable[i]`，这样不经过索引。
npz-member-read =
    .meaning = `np.load` 打开 .npz 归档，每次访问成员都要读出并解压整个数组。
    .advice = 把数组存为 .npy 文件，每个 worker 用 `np.load(path, mmap_mode="r")` 打开一次。这样按索引只读需要的行。
text-array-parsed =
    .meaning = NumPy 在从文本文件解析数字。
    .advice = 用 `np.save` 把文件转换一次，之后读 .npy 文件。读二进制数字不需要解析。
npy-read-whole =
    .meaning = `np.load` 为每个样本读取整个数组文件。
    .advice = 如果只用数组的一部分，就传入 `mmap_mode="r"`。如果样本很小，就把许多样本存进一个 .npy 文件，每个 worker 用 `mmap_mode="r"` 打开一次。
tensor-file-read =
    .meaning = `torch.load` 为每个样本反序列化一个文件，并把其中的张量复制到内存。
    .advice = 把许多样本存进一个张量，每个 worker 用 `torch.load(path, mmap=True)` 打开一次。这样按索引只读需要的行，也不必逐个样本反序列化。
hub-dataset-loaded =
    .meaning = datasets 库在加载数据集：解析文件、检查缓存、映射表。
    .advice = 在创建 DataLoader 之前只调用一次 `load_dataset` 或 `load_from_disk`，并把数据集传进去。各 worker 共用它映射到内存的表。

## 音频

audio-resampled =
    .meaning = 每个样本的音频都要转换采样率。
    .advice = 把文件一次性重采样为模型使用的采样率并保存。每个 epoch 的结果都一样。
spectrogram-computed =
    .meaning = librosa 为每个样本在 CPU 上计算频谱图。
    .advice = 返回波形，在 GPU 上用 `torchaudio.transforms.MelSpectrogram` 计算整个批次的频谱图。如果波形没有随机变换，就一次性算好并保存频谱图。
audio-loaded-librosa =
    .meaning = `librosa.load` 解码文件、混为单声道，并默认转换为 22,050 Hz。
    .advice = 传入 `sr=None`；只用一部分时再传 `offset=` 和 `duration=`。对 WAV 和 FLAC，用带 `start=` 和 `stop=` 的 `soundfile.read` 更省。
audio-decoded-pydub =
    .meaning = pydub 在解码文件。除 WAV 以外的格式，它都会启动一个 ffmpeg 进程。
    .advice = 把文件一次性转换为 WAV 或 FLAC，用 `soundfile.read` 读取。这样不必为每个样本启动进程。
audio-decoded =
    .meaning = 每个样本都要解码一个音频文件。
    .advice = 只解码用到的部分：`torchaudio.load` 的 `frame_offset=` 和 `num_frames=`，或 torchcodec 的 `get_samples_played_in_range`。WAV 和 FLAC 文件可以从任意位置读取。
audio-read =
    .meaning = soundfile 为每个样本打开并解码一个音频文件。
    .advice = 传入 `start=` 和 `stop=`，只读用到的部分；再传 `dtype="float32"`，因为默认是 float64。长录音存为 WAV，定位不花时间。
audio-features-extracted =
    .meaning = transformers 的特征提取器在 CPU 上计算音频特征。
    .advice = 用 `datasets.map` 一次性算好特征并保存。如果音频有随机变换，就在 GPU 上对整个批次计算。

## 文本与数据集的行

pretrained-loaded =
    .meaning = `from_pretrained` 在读取并解析分词器、处理器或模型的文件。
    .advice = 只调用一次 `from_pretrained`：在数据集的 `__init__` 里，或在创建 DataLoader 之前，并保留该对象。
chat-template-rendered =
    .meaning = transformers 为每段对话渲染聊天模板。
    .advice = 用 `datasets.map` 一次性渲染并分词，保存 `input_ids`。每个 epoch 的文本都一样。
text-tokenized-in-python =
    .meaning = 用 Python 写的 transformers 分词器在切分文本。
    .advice = 用 `AutoTokenizer.from_pretrained` 加载分词器，并检查 `tokenizer.is_fast`：快速分词器是用 Rust 写的。如果该模型没有，就用 `datasets.map` 分词一次并保存 `input_ids`。
tokens-padded =
    .meaning = transformers 为每个批次用 Python 代码补齐 token 列表并转换为张量。
    .advice = 让 `__getitem__` 返回张量，在 collate 函数里用 `torch.nn.utils.rnn.pad_sequence` 补齐。或一次性把文本拼成相同长度。
text-tokenized =
    .meaning = 每次取数都在给文本分词。
    .advice = 用 `datasets.map(batched=True)` 分词一次并保存 `input_ids`。如果每个 epoch 的文本都不同，就在 collate 函数里把整个批次交给一次调用：每次调用都有固定开销。
image-processed =
    .meaning = transformers 的图像处理器在 CPU 上缩放并归一化图像。
    .advice = 用 `backend="torchvision"` 加载处理器（transformers 5 之前用 `use_fast=True`）；如果在训练线程上处理整个批次，再传 `device="cuda"`。或一次性缩放图像并保存。
feature-decoded =
    .meaning = datasets 库为读到的每一行解码图像、音频或视频列。
    .advice = 用 `select_columns` 去掉训练不用的列。否则设 `cast_column(name, Image(decode=False))`，自己按模型需要的大小解码这些字节。
arrow-indices-mapped =
    .meaning = datasets 库要通过 `shuffle`、`select` 或 `filter` 留下的索引列表查找每一行。
    .advice = 在 `shuffle`、`select` 或 `filter` 之后调用一次 `flatten_indices()`。各行会按新的顺序写出，之后直接读取。
arrow-row-formatted =
    .meaning = datasets 库从 Arrow 表中取行，并转换为 Python 对象。
    .advice = 调用 `with_format("torch")` 或 `with_format("numpy")`，避免数组变成 Python 列表。按整个批次读取：外层数据集应定义 `__getitems__` 并把索引列表传下去。
yaml-parsed =
    .meaning = PyYAML 用 Python 代码解析 YAML。
    .advice = 在训练之前解析一次，保留或保存结果。如果必须逐个样本解析，就用 C 写的 `Loader=yaml.CSafeLoader`。
xml-parsed =
    .meaning = 每个样本都在解析 XML。
    .advice = 把标注解析一次，把数字存为数组。每个 epoch 的标注都一样。
json-parsed =
    .meaning = 每个样本都在解析 JSON。
    .advice = 把标注解析一次，存为数组或 Arrow 表。如果必须逐个样本解析，`orjson.loads` 更省。
csv-parsed =
    .meaning = `csv.DictReader` 用 Python 代码为每一行建立 dict。
    .advice = 一次性把文件读成数组，每列一个。对流式读取的文件，用 `csv.reader`，它的行是用 C 建立的列表。
regex-compiled =
    .meaning = `re` 在重复编译正则表达式。它最多保留 512 个，所以逐个样本拼出来的会被挤掉。
    .advice = 在模块开头用 `re.compile` 把每个正则表达式编译一次，把会变的值放在外围代码里，不要放进正则表达式。
regex-applied =
    .meaning = 每次取数都在对文本应用正则表达式。
    .advice = 把文本清洗一次并保存。如果每个 epoch 的文本都不同，就把多次替换合并为一个正则表达式，或改用 `str.replace` 和 `str.translate`。

## 内存中的表和数组

table-file-read =
    .meaning = pandas 在从文件读取并解析表。
    .advice = 在数据集的 `__init__` 里只读一次，或一次性转换为可以映射到内存的 .npy 或 Arrow 文件。
table-rows-iterated =
    .meaning = pandas 逐行访问，并为每一行建立 Series 或元组。
    .advice = 用 `df["name"].to_numpy()` 把列取为数组，对整个数组计算。如果结果不变，就在 `__init__` 里算一次。
table-searched =
    .meaning = pandas 为每个样本查找、分组、排序或连接整张表。
    .advice = 在 `__init__` 里只做一次：用 `df.groupby(key).indices` 建立从键到行号的 dict。这样查找时间不再取决于表的大小。
table-row-taken =
    .meaning = pandas 在取单行或单元格，并为每次取值建立带索引的 Series。
    .advice = 在 `__init__` 里用 `df["name"].to_numpy()` 把列一次性取为数组，之后对数组取索引。这样 worker 也不会因引用计数而复制这张表。
array-grown =
    .meaning = NumPy 把数组拼成新数组，每次都要全部复制。
    .advice = 用 `np.empty` 一次性分配结果再填入，或先把各部分放进列表，循环结束后拼接一次。

## 服务器与远程文件

request-retried =
    .meaning = 客户端在重新发送失败的请求之前睡眠等待。
    .advice = 查清请求为什么失败：记录客户端的重试。常见原因是请求限流（状态码 429 或 503），所以应读取更少、更大的对象。
hub-file-checked =
    .meaning = `hf_hub_download` 每次调用都会询问 Hub 文件是否有变化。
    .advice = 在训练之前用 `snapshot_download` 下载所有文件，并读取本地路径。训练时设 `HF_HUB_OFFLINE=1`，就不会发送请求。
cloud-client-created =
    .meaning = 在创建云存储的客户端，要加载服务描述和凭证。
    .advice = 每个 worker 在第一次 `__getitem__` 时创建一个客户端并存为属性。它的连接也会保持打开。
database-connected =
    .meaning = 在打开新的数据库连接。
    .advice = 每个 worker 在第一次 `__getitem__` 时打开一个连接并保留。fork 出的 worker 不能共用连接。
database-queried =
    .meaning = 逐个样本查询数据库，每次都要一个往返。
    .advice = 定义 `__getitems__`，用一次查询取整个批次，例如 `WHERE id IN (…)`。磁盘放得下的数据，从文件读更快。
certificates-loaded =
    .meaning = 为新的 TLS 上下文重新加载受信任的证书列表。
    .advice = 每个 worker 创建一个 `requests.Session`、`httpx.Client` 或 `ssl.SSLContext` 并保留。`requests.get` 和 `httpx.get` 每次调用都会新建一个。
tls-handshake =
    .meaning = 在为请求协商 TLS 连接，而这些请求本可使用已打开的连接。
    .advice = 每个 worker 保留一个 `requests.Session`、`httpx.Client` 或 `urllib3.PoolManager`，并把每个应答读完。连接随后保持打开，省去两个或更多往返。
connection-opened =
    .meaning = 在查询主机名并打开网络连接。
    .advice = 每个 worker 保留一个 `requests.Session`、`httpx.Client` 或 `urllib3.PoolManager`，并把每个应答读完。`urllib.request.urlopen` 总是打开新连接。
cloud-object-awaited =
    .meaning = 取数在逐个等待云存储的对象。
    .advice = 把样本打包成 100 MB 或更大的分片并按顺序读取，或把数据拷到本地磁盘。如果对象仍然很小，就在 `__getitems__` 里用线程同时请求整个批次。
remote-file-awaited =
    .meaning = fsspec 在等待远程文件的数据。
    .advice = 把数据拷到本地磁盘，或用较大的 `block_size` 按顺序读取分片。需要随机访问时，用一次 `fs.cat_ranges` 取整个批次，它会同时请求所有部分。
shard-pipe-awaited =
    .meaning = webdataset 在等待管道另一端提供分片的程序。
    .advice = 把分片放在本地磁盘（`cache_dir=`），或调高 `num_workers`，让更多分片同时到达。
http-answer-awaited =
    .meaning = 取数在等待 HTTP 服务器的应答，一次一个请求。
    .advice = 同时请求多个样本：定义 `__getitems__` 并在其中用线程，或调高 `num_workers`。文件越大，往返次数越少。

## 图像、视频和体数据

thumbnail-made =
    .meaning = Pillow 为每个样本解码图像并缩小。
    .advice = 把缩小后的图像一次性保存，之后读取它们。`thumbnail` 已经按缩小的尺寸解码 JPEG，所以这里省不了更多。
image-decoded =
    .meaning = Pillow 按原始尺寸解码图像。
    .advice = 如果图像是 JPEG 且比模型输入大得多，就在 `Image.open` 之后立即调用 `image.draft("RGB", size)`，它按二分之一、四分之一或八分之一的尺寸解码。否则一次性保存更小的图像。
image-decoded-torchvision =
    .meaning = torchvision 在 CPU 上解码图像。
    .advice = 按模型需要的尺寸一次性保存图像。在 CUDA 上使用 JPEG 时，返回字节，在训练线程上用 `torchvision.io.decode_jpeg(list_of_bytes, device="cuda")` 解码整个批次。
video-scanned =
    .meaning = `VideoDecoder()` 读取整个文件来确定每一帧的位置。
    .advice = 对帧率恒定的文件传入 `seek_mode="approximate"`，或在每个 worker 里保留最近文件的解码器。这样不必重复扫描。
video-decoded =
    .meaning = torchcodec 在解码帧，每次都要从前面的关键帧开始。
    .advice = 按模型需要的尺寸重新编码视频，每 8 到 16 帧一个关键帧（`ffmpeg -g 16`）。用一次调用取一个片段的所有帧，例如 `get_frames_in_range`。
video-scanned-decord =
    .meaning = decord 打开视频并读取整个文件来建立关键帧索引。
    .advice = 在每个 worker 里保留最近文件的 `VideoReader`。如果每个文件只取一个片段，就一次性把视频切成片段，减少扫描量。
video-decoded-decord =
    .meaning = decord 在解码帧，每次都要从前面的关键帧开始。
    .advice = 按模型需要的尺寸重新编码视频，每 8 到 16 帧一个关键帧（`ffmpeg -g 16`）。传入 `width=` 和 `height=`，并用一次 `get_batch` 取所有帧。
video-read-torchvision =
    .meaning = `torchvision.io` 通过 PyAV 读视频，并把两个时刻之间的所有帧留在内存。
    .advice = 改用 `torchcodec.decoders.VideoDecoder`，它只解码所要的帧。重新编码视频，每 8 到 16 帧一个关键帧（`ffmpeg -g 16`）。
image-read-imageio =
    .meaning = imageio 在打开并解码文件，还要查找能读它的插件。
    .advice = 用 `torchvision.io.decode_image` 或 `cv2.imread` 读 JPEG 和 PNG。如果继续用 imageio，就指明插件：`plugin="pillow"`。
image-resized-skimage =
    .meaning = scikit-image 在缩放或变形图像，用 64 位浮点数计算。
    .advice = 改用 `cv2.resize`，或对 uint8 张量用 `torchvision.transforms.v2.functional.resize`。两者都直接处理字节，快许多倍。
tiff-read-whole =
    .meaning = tifffile 在读取并解码整个 TIFF 文件。
    .advice = 只读用到的部分：每个 worker 用 zarr 打开一次 `tifffile.imread(path, aszarr=True)` 再切片。未压缩的文件可以用 `tifffile.memmap` 映射。
volume-read-whole =
    .meaning = nibabel 在读取整个体数据。`get_fdata` 还会转换为 64 位浮点数。
    .advice = 对未压缩的 .nii 文件，用 `image.dataobj[...]` 切片，只读用到的部分。或把体数据一次性存为 .npy，用 `mmap_mode="r"` 打开。
dicom-read =
    .meaning = pydicom 在解析 DICOM 文件并解码像素。
    .advice = 把文件一次性转换为 .npy、PNG 或 TIFF。如果只要标签，就给 `dcmread` 传入 `stop_before_pixels=True` 和 `specific_tags=`。
image-resized-torchvision =
    .meaning = torchvision 在 CPU 上缩放图像。
    .advice = 按接近模型输入的尺寸一次性保存图像。或用 `Image.draft` 按缩小的尺寸解码 JPEG，减少要缩放的像素。
image-to-float =
    .meaning = torchvision 把图像转换为 32 位浮点数，数据变为四倍大。
    .advice = 返回 uint8 张量（`pil_to_tensor`），在 GPU 上用 `batch.to(device).float().div_(255)` 转换整个批次。这样合并和拷贝只需搬四分之一的字节。
image-transformed-torchvision =
    .meaning = torchvision 在 CPU 上逐张变换图像。
    .advice = 先裁剪或缩放，让后面的变换处理更少的像素。如果 GPU 有空闲，就在 GPU 上对整个批次应用 `torchvision.transforms.v2`。
image-transformed-albumentations =
    .meaning = albumentations 在 CPU 上逐张变换图像。
    .advice = 把裁剪或缩放放在最前面，让后面的变换处理更少的像素。到最后都保持 uint8，由 GPU 对批次做归一化。
array-resampled-scipy =
    .meaning = `scipy.ndimage` 用单线程对数组滤波、旋转或缩放，默认使用三次样条。
    .advice = 传入 `order=1`，会快几倍；或在 GPU 上对整个批次用 `torch.nn.functional.interpolate` 和 `grid_sample`。
pixels-read-singly =
    .meaning = Pillow 把像素作为 Python 对象逐个读写。
    .advice = 用 `np.asarray(image)` 把图像转换一次，之后处理数组。
image-resized =
    .meaning = Pillow 在 CPU 上缩放图像。
    .advice = 用 `image.draft("RGB", size)` 按缩小的尺寸解码 JPEG，或给 `resize` 传入 `reducing_gap=2.0`。总是缩到同一尺寸的图像，应按该尺寸一次性保存。
image-transformed =
    .meaning = Pillow 在 CPU 上逐张变换图像。
    .advice = 先裁剪或缩放，让后面的变换处理更少的像素。如果 GPU 有空闲，就在 GPU 上对整个批次应用 `torchvision.transforms.v2`。

## 批次与训练循环

numbers-collated =
    .meaning = `default_collate` 把许多 Python 或 NumPy 数字逐个转换为张量。
    .advice = 每个样本返回一个数组或张量，不要返回许多单独的数字。数组拼接只是复制内存，数字则要逐个转换。
samples-stacked =
    .meaning = `default_collate` 把所有样本的张量复制到一个批次里。
    .advice = 返回更小的类型，例如 uint8 图像，在 GPU 上再转换。内存中的数据，定义 `__getitems__`，一次切出整个批次。
nested-sample-collated =
    .meaning = `default_collate` 用 Python 代码遍历嵌套的样本，逐个字段合并。
    .advice = 让每个样本返回更少、更大的张量，或为模型用到的字段写一个 `collate_fn`。
memory-cache-emptied =
    .meaning = 在清空 GPU 的内存缓存，PyTorch 之后要重新分配。有些工具还会运行 Python 的垃圾回收。
    .advice = 从循环里去掉 `torch.cuda.empty_cache()`。如果因碎片而内存不足，就设 `PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True`。
progress-bar-drawn =
    .meaning = tqdm 在绘制进度条。
    .advice = 给 tqdm 传入 `mininterval=1` 或更大，并调用 `set_postfix(..., refresh=False)`。每步都绘制的进度条，每次都要等终端。
metrics-logged =
    .meaning = 在向 TensorBoard 或 `wandb` 写指标。
    .advice = 每 50 到 100 步记录一次，图片更少。期间在 GPU 上累加，循环就不必等 GPU。

## Python、进程和文件

manager-asked =
    .meaning = 在读取 `multiprocessing.Manager` 的对象。每次访问都要询问 manager 进程，并序列化应答。
    .advice = 把数据放在 NumPy 数组或共享张量（`tensor.share_memory_()`）里，所有 worker 都可直接读取。
objects-copied =
    .meaning = `copy.deepcopy` 用 Python 代码逐个复制对象。
    .advice = 只复制会被变换修改的部分，例如 `dict(sample)` 和要写入的那个数组。更好的做法：把标注存为数组，并且从不写入。
compressed-file-sought =
    .meaning = 在压缩文件里定位时，要解压该位置之前的全部内容。
    .advice = 把文件一次性解压，或按顺序读取。需要随机访问时，逐个样本分别压缩。
slow-format-decompressed =
    .meaning = 在解压 bzip2 或 xz 数据。两者都比 gzip 慢几倍，比 Zstandard 慢得多。
    .advice = 用 Zstandard 或 LZ4 重新压缩文件，或不压缩保存。
gzip-decompressed =
    .meaning = 在用单线程解压 gzip 数据。
    .advice = 不压缩保存文件，或用解压快几倍的 Zstandard 或 LZ4 重新压缩。
log-written =
    .meaning = 在创建并写出日志记录。每个写入流的处理器在每条记录之后都会 flush。
    .advice = 在 `__getitem__` 和循环里减少日志，或用 `logger.setLevel` 提高级别。如果每条都需要，就用 `logging.handlers.QueueHandler` 由另一个线程写出。
warning-written =
    .meaning = 警告在反复格式化并打印。
    .advice = 解决警告所说的问题。如果做不到，就只过滤这一条：`warnings.filterwarnings("ignore", message=…)`，在 `worker_init_fn` 里也要设。
workers-restarted =
    .meaning = `iter(loader)` 重新启动所有 worker 进程。
    .advice = 给 DataLoader 传入 `persistent_workers=True`。这样 worker 在所有 epoch 中一直存在，并保留打开的文件和缓存。
workers-ended =
    .meaning = DataLoader 在结束 worker 进程并等待它们退出。
    .advice = 给 DataLoader 传入 `persistent_workers=True`。这样 worker 只在最后一个 epoch 之后结束一次。
process-pool-started =
    .meaning = 在启动或结束一个进程池。
    .advice = 只创建一次进程池并保留。在 DataLoader 的 worker 里，去掉进程池并调高 `num_workers`：两者用的是同样的 CPU。
process-started =
    .meaning = 在启动一个进程，取数要等它结束。
    .advice = 用在本进程内工作的库代替该程序，例如用 torchcodec 代替 ffmpeg。或在训练之前对所有文件运行一次该程序。
threads-started =
    .meaning = 线程在反复启动和结束。
    .advice = 每个 worker 在第一次调用时创建一个 `ThreadPoolExecutor` 并存为属性。
pool-awaited =
    .meaning = 取数在等待交给其他线程或进程的任务。
    .advice = 查看这些任务在做什么：开销在它们自己的代码行。如果在计算，就去掉线程池并调高 `num_workers`。如果在等服务器，就给线程池更多线程。
function-compiled =
    .meaning = Numba 在编译函数，每个进程、每种类型组合各一次。
    .advice = 给 `@njit` 传入 `cache=True`，并设 `persistent_workers=True`。这样 worker 加载已编译的代码，并在所有 epoch 中保留。
module-imported =
    .meaning = Python 在导入模块。用 spawn 启动的新 worker 要重新导入一切。
    .advice = 传入 `persistent_workers=True`，让 worker 只导入一次。数据集不需要的大模块，不要在它所在的模块里导入。
file-copied =
    .meaning = 文件在复制、移动、解包或删除。
    .advice = 在训练之前把数据一次性复制或解包。如果磁盘放不下，就不解包，直接从归档读取。
directory-listed =
    .meaning = 在列出文件夹的内容。在网络存储上，每个文件夹至少要一个往返。
    .advice = 一次性列出文件，把列表保存在数据旁边，让数据集使用这份列表。
file-status-asked =
    .meaning = 在询问文件系统文件是否存在或有多大。在网络存储上，每次询问都要一个往返。
    .advice = 检查一次文件，保存可用文件的列表。之后直接打开文件，并处理 `FileNotFoundError`。

## 原生函数（按源代码中的写法）

sleep-called =
    .meaning = 代码在休眠。
    .advice = 去掉 sleep。如果是在等待某件事，就直接等待该事件。如果是为了限制对服务器的请求，就用更多 worker 提前读取。
garbage-collected =
    .meaning = 手动运行了 Python 的垃圾回收，它会访问进程里的每个对象。
    .advice = 去掉 `gc.collect()`，或每个 epoch 只调用一次。在 worker 启动前调用 `gc.freeze()`，之后的回收会更短。
file-forced-to-disk =
    .meaning = 每次写入都强制落盘，代码一直等到写完。
    .advice = 去掉这里的 `os.fsync`，或只对检查点落盘，并放到另一个线程里。
lmdb-reopened =
    .meaning = 反复打开 LMDB 环境。
    .advice = 每个 worker 只打开一次：在第一次 `__getitem__` 或 `worker_init_fn` 里，用 `readonly=True, lock=False, readahead=False`。
video-opened =
    .meaning = 在打开视频：读取索引并启动解码器。
    .advice = 每个 worker 保留几个已打开的视频，用 `functools.lru_cache` 包住打开操作，或从一个视频里读取多个样本。
image-decoded-opencv =
    .meaning = OpenCV 在解码图像。
    .advice = 按模型需要的尺寸保存图像。对 JPEG，`cv2.IMREAD_REDUCED_COLOR_2` 以一半尺寸解码。
checksum-computed =
    .meaning = 在计算数据的校验和。
    .advice = 训练前检查一次数据，不要每次读取都检查。
objects-unpickled =
    .meaning = 在加载 pickle 对象，逐个创建 Python 对象。
    .advice = 改为保存数组，例如用 `np.save`，并以 `mmap_mode="r"` 打开，这样不再逐个复制对象。
tensor-made-of-numbers =
    .meaning = 在用 Python 数字或其他对象逐个构造张量。
    .advice = 把数据放在数组里，用不复制数据的 `torch.from_numpy`。
tensors-joined =
    .meaning = PyTorch 把张量拼成新张量，每次都要全部复制。
    .advice = 先把各部分放进列表，循环结束后拼接一次，或用 `torch.empty` 分配结果再填入。
file-opened =
    .meaning = 在打开文件。在网络存储上，每个文件都要几次往返。
    .advice = 把样本打包成少数大文件（tar 分片、HDF5、LMDB、Arrow），或在样本之间保持文件打开。在此之前，更多 worker 可以并行等待。
