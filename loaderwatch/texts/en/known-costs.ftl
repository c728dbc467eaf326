### Known costs: what a sampled line calls (meaning), and what to do instead (advice). One message for each row of detect/known_costs.py.

## Containers and files that are opened, searched or read for every sample

zip-reopened =
    .meaning = `ZipFile()` reads the directory of the whole archive each time it opens the file.
    .advice = Open the archive once per worker: let `__getitem__` create the `ZipFile` at its first call and keep it in an attribute. The directory is then
        read once, not per sample.
zip-member-decompressed =
    .meaning = zipfile decompresses the member and computes its checksum.
    .advice = Write the archive again with `ZIP_STORED`. JPEG, PNG and most audio are compressed already, so decompression costs time and saves no space.
tar-reopened =
    .meaning = tarfile opens the archive for every sample, and first finds out how it is compressed.
    .advice = Open the archive once per worker, at the first `__getitem__`, and keep it in an attribute. Pass the mode, such as `mode="r:"` for an uncompressed file,
        so no other format is tried.
tar-scanned =
    .meaning = tarfile reads the headers of all members to find one, because a tar file has no directory.
    .advice = Save an index once: name, `TarInfo.offset_data` and `TarInfo.size` of each member. Then `seek` in the uncompressed file and read these bytes, or
        read the members in their order.
tar-member-searched =
    .meaning = `TarFile` searches its list of members from the end, one by one, for every name.
    .advice = Build a dict from name to `TarInfo` once per worker and pass the `TarInfo` to `extractfile`. A look-up then no longer grows with the archive.
hdf5-reopened =
    .meaning = h5py opens or closes the file for every sample, which also empties its chunk cache.
    .advice = Open the `h5py.File` once per worker, at the first `__getitem__`, and keep it in an attribute. Do not open it in `__init__`: forked workers must
        not share it.
hdf5-object-looked-up =
    .meaning = h5py looks up a group, dataset or attribute by its name for every sample.
    .advice = Keep the `Dataset` objects in a dict of the worker. If each sample is a dataset of its own, store all samples in one dataset with a first axis
        for samples.
hdf5-chunk-read =
    .meaning = h5py reads from a dataset. It must read and decompress every chunk that the selection touches.
    .advice = Choose chunks that hold exactly one sample, and no compression or LZ4. Read a whole batch with one slice in `__getitems__`, because each call of
        h5py has a fixed cost.
zarr-reopened =
    .meaning = zarr opens the store for every sample and reads its metadata again.
    .advice = Open the array once per worker and keep it in an attribute. For a group on remote storage, call `zarr.consolidate_metadata` once, so opening it
        takes one request.
zarr-chunk-read =
    .meaning = zarr reads from an array. It must load and decompress every chunk that the selection touches.
    .advice = Choose chunks that hold exactly one sample, and a fast codec such as LZ4. On remote storage, read a whole batch in `__getitems__`: zarr asks for
        its chunks at the same time.
parquet-file-read =
    .meaning = A whole Parquet file is read and decoded.
    .advice = Keep a `pyarrow.parquet.ParquetFile` per worker and read row groups with `read_row_group`, and only the fields needed with `columns=`. If the
        data fits in memory, convert it once to arrays.
parquet-reopened =
    .meaning = pyarrow opens a Parquet file and parses its footer, which describes every column of every row group.
    .advice = Keep one `ParquetFile` per file in each worker. If you must open a file again, pass the `metadata` of the first time, so the footer is not
        parsed again.
parquet-row-group-read =
    .meaning = pyarrow reads and decodes whole row groups, even if one row is used.
    .advice = Read a row group once and yield all of its rows: use an `IterableDataset` with a shuffle buffer. For random access, write smaller row groups
        (`row_group_size`) and pass `columns=`.
xarray-reopened =
    .meaning = xarray opens a dataset for every sample and builds its coordinates and indexes again.
    .advice = Open the dataset once per worker and keep it in an attribute. In `__getitem__`, take plain arrays from it, such as `ds["x"].variable[i]`, which
        skips the indexes.
npz-member-read =
    .meaning = `np.load` opens a .npz archive, and each access to a member reads and decompresses the whole array.
    .advice = Save the arrays as .npy files and open them once per worker with `np.load(path, mmap_mode="r")`. An index then reads only its own rows.
text-array-parsed =
    .meaning = NumPy parses numbers from a text file.
    .advice = Convert the files once with `np.save` and read the .npy files. Reading binary numbers needs no parsing.
npy-read-whole =
    .meaning = `np.load` reads a whole array file for each sample.
    .advice = Pass `mmap_mode="r"` if only part of the array is used. If samples are small, store many in one .npy file that each worker opens once with
        `mmap_mode="r"`.
tensor-file-read =
    .meaning = `torch.load` unpickles a file for each sample and copies its tensors into memory.
    .advice = Store many samples in one tensor and open it once per worker with `torch.load(path, mmap=True)`. An index then reads only its own rows, and
        nothing is unpickled per sample.
hub-dataset-loaded =
    .meaning = The datasets library loads a dataset: it resolves its files, checks its cache and maps its tables.
    .advice = Call `load_dataset` or `load_from_disk` once, before the DataLoader is created, and pass the dataset in. Workers share its memory-mapped tables.

## Sound

audio-resampled =
    .meaning = Audio is converted to another sample rate for every sample.
    .advice = Resample the files once and save them at the rate of the model. The result is the same in every epoch.
spectrogram-computed =
    .meaning = librosa computes a spectrogram on the CPU for every sample.
    .advice = Return the waveform and compute the spectrogram of the whole batch on the GPU, with `torchaudio.transforms.MelSpectrogram`. Without random changes
        of the waveform, save the spectrograms once instead.
audio-loaded-librosa =
    .meaning = `librosa.load` decodes the file, mixes it to mono, and by default converts it to 22,050 Hz.
    .advice = Pass `sr=None`, and `offset=` and `duration=` if only a part is used. For WAV and FLAC, `soundfile.read` with `start=` and `stop=` does the same
        with less work.
audio-decoded-pydub =
    .meaning = pydub decodes the file. It starts an ffmpeg process for every format but WAV.
    .advice = Convert the files once to WAV or FLAC and read them with `soundfile.read`. Then no process starts per sample.
audio-decoded =
    .meaning = An audio file is decoded for every sample.
    .advice = Decode only the part that is used: `frame_offset=` and `num_frames=` of `torchaudio.load`, or `get_samples_played_in_range` of torchcodec. Files in
        WAV or FLAC can be read from any position.
audio-read =
    .meaning = soundfile opens and decodes an audio file for every sample.
    .advice = Pass `start=` and `stop=` to read only the part that is used, and `dtype="float32"`: the default is float64. Store long recordings as WAV, in which
        a seek costs nothing.
audio-features-extracted =
    .meaning = A feature extractor of transformers computes the features of audio on the CPU.
    .advice = Compute the features once with `datasets.map` and save them. With random changes of the audio, compute them for the whole batch on the GPU.

## Text and rows of datasets

pretrained-loaded =
    .meaning = `from_pretrained` reads and parses the files of a tokenizer, processor or model.
    .advice = Call `from_pretrained` once, in the dataset's `__init__` or before the DataLoader is created, and keep the object.
chat-template-rendered =
    .meaning = transformers renders a chat template for every conversation.
    .advice = Render and tokenize the conversations once with `datasets.map` and save `input_ids`. The text is the same in every epoch.
text-tokenized-in-python =
    .meaning = A tokenizer of transformers that is written in Python splits the text.
    .advice = Load the tokenizer with `AutoTokenizer.from_pretrained` and check `tokenizer.is_fast`: fast ones are written in Rust. If the model has none, tokenize
        once with `datasets.map` and save `input_ids`.
tokens-padded =
    .meaning = transformers pads token lists and converts them to tensors, in Python code for each batch.
    .advice = Let `__getitem__` return tensors and pad them with `torch.nn.utils.rnn.pad_sequence` in the collate function. Or pack the texts to one length once.
text-tokenized =
    .meaning = Text is tokenized in every fetch.
    .advice = Tokenize the texts once with `datasets.map(batched=True)` and save `input_ids`. If texts change in every epoch, pass the whole batch to one call in
        the collate function: each call has a fixed cost.
image-processed =
    .meaning = An image processor of transformers resizes and normalizes images on the CPU.
    .advice = Load the processor with `backend="torchvision"` (before transformers 5: `use_fast=True`). Pass `device="cuda"` if the training thread processes
        whole batches. Or resize the images once and save them.
feature-decoded =
    .meaning = The datasets library decodes an image, audio or video column for each row that is read.
    .advice = Remove columns that the training does not use: `select_columns`. Otherwise set `cast_column(name, Image(decode=False))` and decode the bytes
        yourself, at the size that the model needs.
arrow-indices-mapped =
    .meaning = The datasets library looks up each row through a list of indices that `shuffle`, `select` or `filter` left.
    .advice = Call `flatten_indices()` once after `shuffle`, `select` or `filter`. The rows are then written in their new order and read directly.
arrow-row-formatted =
    .meaning = The datasets library takes rows from its Arrow table and converts them to Python objects.
    .advice = Call `with_format("torch")` or `with_format("numpy")`, so arrays do not become Python lists. Read whole batches: a wrapper should define
        `__getitems__` and pass the list of indices on.
yaml-parsed =
    .meaning = PyYAML parses YAML in Python code.
    .advice = Parse the files once, before training, and keep or save the result. If they must be parsed per sample, use `Loader=yaml.CSafeLoader`, which is
        written in C.
xml-parsed =
    .meaning = XML is parsed for every sample.
    .advice = Parse the annotations once and save the numbers as arrays. They are the same in every epoch.
json-parsed =
    .meaning = JSON is parsed for every sample.
    .advice = Parse the annotations once and save them as arrays or an Arrow table. If the text must be parsed per sample, `orjson.loads` does it with less work.
csv-parsed =
    .meaning = `csv.DictReader` builds a dict for each row in Python code.
    .advice = Read the file once into arrays, one for each column. For a file that is streamed, use `csv.reader`, whose rows are lists made in C.
regex-compiled =
    .meaning = `re` compiles patterns again. It keeps at most 512, so patterns that are made per sample drop out.
    .advice = Compile each pattern once at the top of the module with `re.compile`, and put values that change into the code around it, not into the pattern.
regex-applied =
    .meaning = Regular expressions are applied to text in every fetch.
    .advice = Clean the texts once and save them. If they change in every epoch, join several substitutions into one pattern, or use `str.replace` and
        `str.translate`.

## Tables and arrays in memory

table-file-read =
    .meaning = pandas reads and parses a table from a file.
    .advice = Read the table once in the dataset's `__init__`, or convert it once to .npy or Arrow files that can be memory-mapped.
table-rows-iterated =
    .meaning = pandas visits the rows one by one and builds a Series or tuple for each.
    .advice = Take the columns as arrays with `df["name"].to_numpy()` and compute on whole arrays. Do it once in `__init__` if the result does not change.
table-searched =
    .meaning = pandas searches, groups, sorts or joins the whole table for each sample.
    .advice = Do this once in `__init__`: build a dict from key to row numbers with `df.groupby(key).indices`. A look-up then no longer depends on the size of
        the table.
table-row-taken =
    .meaning = pandas takes single rows or cells, and builds a Series with an index for each.
    .advice = Take the columns as arrays once in `__init__`, with `df["name"].to_numpy()`, and index the arrays. That also avoids copies of the table in workers
        through reference counts.
array-grown =
    .meaning = NumPy joins arrays into a new one, which copies all of them each time.
    .advice = Allocate the result once with `np.empty` and fill it, or collect the parts in a list and join them once after the loop.

## Servers and remote files

request-retried =
    .meaning = A client sleeps before it sends a failed request again.
    .advice = Find out why requests fail: log the retries of the client. Limits on requests are the usual reason (status 429 or 503), so read fewer and larger
        objects.
hub-file-checked =
    .meaning = `hf_hub_download` asks the hub whether the file has changed, each time it is called.
    .advice = Download all files before training with `snapshot_download` and read the local paths. Set `HF_HUB_OFFLINE=1` in training, so no request is sent.
cloud-client-created =
    .meaning = A client for cloud storage is created, which loads service descriptions and credentials.
    .advice = Create one client per worker at the first `__getitem__` and keep it in an attribute. It also keeps its connections open.
database-connected =
    .meaning = A new connection to a database is opened.
    .advice = Open one connection per worker at the first `__getitem__` and keep it. Connections must not be shared by forked workers.
database-queried =
    .meaning = A database is asked for single samples, with a round trip for each.
    .advice = Define `__getitems__` and ask for a whole batch with one query, such as `WHERE id IN (…)`. Data that fits on the disk is read faster from files.
certificates-loaded =
    .meaning = The list of trusted certificates is loaded again for a new TLS context.
    .advice = Create one `requests.Session`, `httpx.Client` or `ssl.SSLContext` per worker and keep it. `requests.get` and `httpx.get` make a new one at each call.
tls-handshake =
    .meaning = A TLS connection is negotiated for requests that could use an open one.
    .advice = Keep one `requests.Session`, `httpx.Client` or `urllib3.PoolManager` per worker and read each answer to its end. The connection then stays open, which
        saves two or more round trips.
connection-opened =
    .meaning = A network connection is opened, after the name of the host is looked up.
    .advice = Keep one `requests.Session`, `httpx.Client` or `urllib3.PoolManager` per worker and read each answer to its end. `urllib.request.urlopen` always opens a
        new connection.
cloud-object-awaited =
    .meaning = The fetch waits for objects of a cloud store, one after another.
    .advice = Pack samples into shards of 100 MB or more and read them in order, or copy the data to a local disk. If objects stay small, ask for a whole batch at
        once with threads in `__getitems__`.
remote-file-awaited =
    .meaning = fsspec waits for data of a remote file.
    .advice = Copy the data to a local disk, or read shards in order with a large `block_size`. For random access, get a whole batch with one `fs.cat_ranges`, which
        asks for all parts at the same time.
shard-pipe-awaited =
    .meaning = webdataset waits for the program behind a pipe that delivers the shard.
    .advice = Keep shards on a local disk (`cache_dir=`), or raise `num_workers`, so more shards arrive at the same time.
http-answer-awaited =
    .meaning = The fetch waits for the answer of an HTTP server, one request at a time.
    .advice = Ask for several samples at the same time: define `__getitems__` and use threads there, or raise `num_workers`. Larger files need fewer round trips.

## Pictures, videos and volumes

thumbnail-made =
    .meaning = Pillow decodes images and shrinks them for every sample.
    .advice = Save the shrunken images once and read those. `thumbnail` already decodes JPEG at a reduced size, so little else can be saved here.
image-decoded =
    .meaning = Pillow decodes images at full size.
    .advice = Call `image.draft("RGB", size)` right after `Image.open` if the images are JPEG and much larger than the model's input. It decodes at a half, quarter or
        eighth of the size. Otherwise save smaller images once.
image-decoded-torchvision =
    .meaning = torchvision decodes images on the CPU.
    .advice = Save the images once at the size that the model needs. For JPEG on CUDA, return the bytes and decode the whole batch with
        `torchvision.io.decode_jpeg(list_of_bytes, device="cuda")` on the training thread.
video-scanned =
    .meaning = `VideoDecoder()` reads the whole file to find each frame's position.
    .advice = Pass `seek_mode="approximate"` for files with a constant frame rate, or keep the decoders of recent files per worker. The scan is then not repeated.
video-decoded =
    .meaning = torchcodec decodes frames. It must begin at the key frame before each of them.
    .advice = Encode the videos again at the model's size with a key frame every 8 to 16 frames (`ffmpeg -g 16`). Ask for all frames of a clip in one call, such as
        `get_frames_in_range`.
video-scanned-decord =
    .meaning = decord opens a video and reads the whole file to index its key frames.
    .advice = Keep the `VideoReader` of recent files per worker. If each file gives one clip, cut the videos once into clips, so there is less to scan.
video-decoded-decord =
    .meaning = decord decodes frames. It must begin at the key frame before each of them.
    .advice = Encode the videos again at the model's size with a key frame every 8 to 16 frames (`ffmpeg -g 16`). Pass `width=` and `height=`, and ask for all frames
        with one `get_batch`.
video-read-torchvision =
    .meaning = `torchvision.io` reads a video through PyAV and keeps all frames between two times in memory.
    .advice = Use `torchcodec.decoders.VideoDecoder`, which decodes only the frames that are asked for. Encode the videos again with a key frame every 8 to 16 frames
        (`ffmpeg -g 16`).
image-read-imageio =
    .meaning = imageio opens and decodes a file. It also searches for a plugin that can read it.
    .advice = Read JPEG and PNG with `torchvision.io.decode_image` or `cv2.imread`. If you stay with imageio, name the plugin: `plugin="pillow"`.
image-resized-skimage =
    .meaning = scikit-image resizes or warps images. It computes with 64-bit floats.
    .advice = Use `cv2.resize`, or `torchvision.transforms.v2.functional.resize` on a uint8 tensor. Both work on bytes and are many times faster.
tiff-read-whole =
    .meaning = tifffile reads and decodes a whole TIFF file.
    .advice = Read only the part that is used: open `tifffile.imread(path, aszarr=True)` once per worker with zarr and slice it. Uncompressed files can be mapped with
        `tifffile.memmap`.
volume-read-whole =
    .meaning = nibabel reads a whole volume. `get_fdata` also converts it to 64-bit floats.
    .advice = Slice `image.dataobj[...]` to read only the part that is used, from uncompressed .nii files. Or save the volumes once as .npy and open them with
        `mmap_mode="r"`.
dicom-read =
    .meaning = pydicom parses a DICOM file and decodes its pixels.
    .advice = Convert the files once to .npy, PNG or TIFF. If only tags are needed, pass `stop_before_pixels=True` and `specific_tags=` to `dcmread`.
image-resized-torchvision =
    .meaning = torchvision resizes images on the CPU.
    .advice = Save the images once at a size close to that of the model. Or decode JPEG at a reduced size with `Image.draft`, so there is less to resize.
image-to-float =
    .meaning = torchvision converts images to 32-bit floats, which makes them four times as large.
    .advice = Return uint8 tensors (`pil_to_tensor`) and convert the batch on the GPU with `batch.to(device).float().div_(255)`. Collating and copying then move a
        quarter of the bytes.
image-transformed-torchvision =
    .meaning = torchvision changes images on the CPU, one at a time.
    .advice = Crop or resize first, so later transforms touch fewer pixels. Apply `torchvision.transforms.v2` to the whole batch on the GPU if the GPU has time left.
image-transformed-albumentations =
    .meaning = albumentations changes images on the CPU, one at a time.
    .advice = Put the crop or resize first, so later transforms touch fewer pixels. Keep uint8 until the end, and let the GPU normalize the batch.
array-resampled-scipy =
    .meaning = `scipy.ndimage` filters, rotates or zooms arrays with one thread. Its default is cubic splines.
    .advice = Pass `order=1`, which is several times faster, or use `torch.nn.functional.interpolate` and `grid_sample` on the whole batch on the GPU.
pixels-read-singly =
    .meaning = Pillow reads or writes pixels one by one as Python objects.
    .advice = Convert the image once with `np.asarray(image)` and work on the array.
image-resized =
    .meaning = Pillow resizes images on the CPU.
    .advice = Decode JPEG at a reduced size with `image.draft("RGB", size)`, or pass `reducing_gap=2.0` to `resize`. Images that are always shrunk to one size should
        be saved once at that size.
image-transformed =
    .meaning = Pillow changes images on the CPU, one at a time.
    .advice = Crop or resize first, so later changes touch fewer pixels. Apply `torchvision.transforms.v2` to the whole batch on the GPU if the GPU has time left.

## Batches and the loop

numbers-collated =
    .meaning = `default_collate` makes a tensor of many Python or NumPy numbers, one by one.
    .advice = Return one array or tensor per sample in place of many single numbers. Stacking arrays copies memory; numbers must each be converted.
samples-stacked =
    .meaning = `default_collate` copies the tensors of all samples into one batch.
    .advice = Return smaller types, such as uint8 images, and convert them on the GPU. For data in memory, define `__getitems__` and slice the whole batch at once.
nested-sample-collated =
    .meaning = `default_collate` walks through nested samples and collates each field in Python code.
    .advice = Return fewer and larger tensors per sample, or write a `collate_fn` for the fields that the model uses.
memory-cache-emptied =
    .meaning = The GPU's memory cache is emptied, so PyTorch must allocate the memory again. Some helpers also run Python's garbage collector.
    .advice = Remove `torch.cuda.empty_cache()` from the loop. If memory is short because it is fragmented, set `PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True`.
progress-bar-drawn =
    .meaning = tqdm draws its progress bar.
    .advice = Pass `mininterval=1` or more to tqdm, and call `set_postfix(..., refresh=False)`. A bar that is drawn in every step waits for the terminal each time.
metrics-logged =
    .meaning = Metrics are written to TensorBoard or Weights & Biases.
    .advice = Log every 50 to 100 steps, and pictures more rarely. Keep running sums on the GPU between them, so the loop does not wait for the GPU.

## Python, processes and files

manager-asked =
    .meaning = Objects of a `multiprocessing.Manager` are read. Each access asks the manager's process and pickles the answer.
    .advice = Keep data in NumPy arrays or shared tensors (`tensor.share_memory_()`), which all workers read directly.
objects-copied =
    .meaning = `copy.deepcopy` copies objects one by one in Python code.
    .advice = Copy only what the transforms change, such as `dict(sample)` and the one array that is written. Better: keep annotations as arrays and never write to
        them.
compressed-file-sought =
    .meaning = A seek in a compressed file decompresses everything before the position.
    .advice = Decompress the files once, or read them in order. For random access, compress each sample separately.
slow-format-decompressed =
    .meaning = bzip2 or xz data is decompressed. Both are several times slower than gzip, and far slower than Zstandard.
    .advice = Compress the files again with Zstandard or LZ4, or store them uncompressed.
gzip-decompressed =
    .meaning = gzip data is decompressed, with one thread.
    .advice = Store the files uncompressed, or compress them again with Zstandard or LZ4, which decompress several times faster.
log-written =
    .meaning = Log records are created and written. Each handler with a stream flushes after every record.
    .advice = Log less often in `__getitem__` and in the loop, or raise the level with `logger.setLevel`. If every record is needed, write from another thread with
        `logging.handlers.QueueHandler`.
warning-written =
    .meaning = Warnings are formatted and printed again and again.
    .advice = Fix what the warning says. If that is not possible, filter this one: `warnings.filterwarnings("ignore", message=…)`, also in `worker_init_fn`.
workers-restarted =
    .meaning = `iter(loader)` starts all worker processes again.
    .advice = Pass `persistent_workers=True` to the DataLoader. The workers then stay for all epochs and keep their open files and caches.
workers-ended =
    .meaning = The DataLoader ends its worker processes and waits for them.
    .advice = Pass `persistent_workers=True` to the DataLoader. The workers then end once, after the last epoch.
process-pool-started =
    .meaning = A pool of processes is started or ended.
    .advice = Create the pool once and keep it. Inside a DataLoader worker, remove the pool and raise `num_workers`: both only share the same CPUs.
process-started =
    .meaning = A process is started, and the fetch waits for its end.
    .advice = Replace the program by a library that works in this process, such as torchcodec for ffmpeg. Or run the program once for all files before training.
threads-started =
    .meaning = Threads are started and ended again.
    .advice = Create one `ThreadPoolExecutor` per worker at the first call and keep it in an attribute.
pool-awaited =
    .meaning = The fetch waits for tasks that it gave to other threads or processes.
    .advice = Look at what the tasks do: their own lines are the cost. If they compute, remove the pool and raise `num_workers`. If they wait for a server, give the pool
        more threads.
function-compiled =
    .meaning = Numba compiles a function, once in each process for each combination of types.
    .advice = Pass `cache=True` to `@njit` and set `persistent_workers=True`. Then workers load the compiled code and keep it for all epochs.
module-imported =
    .meaning = Python imports modules. New workers that are spawned import everything again.
    .advice = Pass `persistent_workers=True`, so workers import once. Keep heavy imports that the dataset does not need out of its module.
file-copied =
    .meaning = Files are copied, moved, unpacked or removed.
    .advice = Copy or unpack the data once, before training. If it does not fit on the disk, read from the archive without unpacking it.
directory-listed =
    .meaning = Folders are listed. On network storage each folder takes at least one round trip.
    .advice = List the files once and save the list beside the data. Give the dataset the saved list.
file-status-asked =
    .meaning = The file system is asked whether files exist, or how large they are. On network storage each question takes a round trip.
    .advice = Check the files once and save the list of the good ones. Then open a file directly and handle `FileNotFoundError`.

## Native functions, as the source calls them

sleep-called =
    .meaning = The code sleeps.
    .advice = Remove the sleep. If it waits for something, wait for that event itself. If it limits requests to a server, read ahead with more workers.
garbage-collected =
    .meaning = Python's garbage collector is run by hand. It visits every object of the process.
    .advice = Remove `gc.collect()`, or call it once per epoch. `gc.freeze()` before the workers start makes later collections shorter.
file-forced-to-disk =
    .meaning = Every write is forced to the disk, and the code waits until it is there.
    .advice = Remove `os.fsync` here, or force only checkpoints to disk, in another thread.
lmdb-reopened =
    .meaning = LMDB's environment is opened again and again.
    .advice = Open it once per worker: at the first `__getitem__` or in `worker_init_fn`, with `readonly=True, lock=False, readahead=False`.
video-opened =
    .meaning = A video is opened, which reads its index and starts a decoder.
    .advice = Keep a few open videos per worker, with `functools.lru_cache` around the open, or read several samples from one video.
image-decoded-opencv =
    .meaning = OpenCV decodes images.
    .advice = Store the images at the size that the model needs. For JPEG, `cv2.IMREAD_REDUCED_COLOR_2` decodes at half the size.
checksum-computed =
    .meaning = A checksum of the data is computed.
    .advice = Check the data once before training, not at every read.
objects-unpickled =
    .meaning = Pickled objects are loaded, one Python object after another.
    .advice = Store arrays instead, for example with `np.save`, and open them with `mmap_mode="r"`. Then nothing is copied object by object.
tensor-made-of-numbers =
    .meaning = A tensor is made from Python numbers or other objects, one by one.
    .advice = Keep the data in an array and use `torch.from_numpy`, which copies nothing.
tensors-joined =
    .meaning = PyTorch joins tensors into a new one, which copies all of them each time.
    .advice = Collect the parts in a list and join them once after the loop, or allocate the result with `torch.empty` and fill it.
file-opened =
    .meaning = Files are opened. On network storage each one needs several round trips.
    .advice = Pack the samples into few large files (tar shards, HDF5, LMDB, Arrow), or keep files open between samples. Until then, more workers wait side by side.
