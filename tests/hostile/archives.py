"""Zip archives as tests need them: taken apart, put together again with right or wrong checksums."""
import struct
import zipfile
import zlib


def read(path):
    """[(name, bytes)] in the order of the directory."""
    with zipfile.ZipFile(path) as archive:
        return [(info.filename, archive.read(info)) for info in archive.infolist()]


def pack(entries, deflate=(), lies=None, comment=b"", repeat_directory=None):
    """A zip archive of `entries` [(name, bytes)], names as str or raw bytes, data aligned to 64 as torch writes it.

    Entries named in `deflate` are compressed; data may be Zeros there. `lies` {index: {field: value}} changes what directory and local header say:
    size, compressed_size, crc, offset, method, flags, local_name. `repeat_directory` lists indices that appear in the
    directory instead of all, so that several records can point to one entry.
    """
    lies = lies or {}
    body, records = b"", []
    for index, (name, data) in enumerate(entries):
        raw_name = name if isinstance(name, bytes) else name.encode()
        said = lies.get(index, {})
        method = 8 if name in deflate else 0
        stored = squeeze(data) if method else data
        crc = said.get("crc", data.crc() if isinstance(data, Zeros) else zlib.crc32(data))
        size, compressed = said.get("size", len(data)), said.get("compressed_size", len(stored))
        offset = len(body)
        local_name = said.get("local_name", raw_name)
        padding = -(offset + 30 + len(local_name) + 4) % 64
        extra = struct.pack("<HH", 0x4246, padding) + b"Z" * padding
        shown = (said.get("flags", 0), said.get("method", method), 0, 0, crc & 0xFFFFFFFF, compressed & 0xFFFFFFFF,
                 size & 0xFFFFFFFF)
        body += struct.pack("<IHHHHHIIIHH", 0x04034B50, 20, *shown, len(local_name), len(extra)) + local_name + extra + stored
        records.append(struct.pack("<IHHHHHHIIIHHHHHII", 0x02014B50, 20, 20, *shown, len(raw_name), 0, 0, 0, 0, 0,
                                   said.get("offset", offset)) + raw_name)
    directory = b"".join(records[i] for i in (range(len(records)) if repeat_directory is None else repeat_directory))
    count = len(records) if repeat_directory is None else len(repeat_directory)
    end = struct.pack("<IHHHHIIH", 0x06054B50, 0, 0, count, count, len(directory), len(body), len(comment)) + comment
    return body + directory + end


class Zeros:
    """Bytes of zero behind a head, never held in memory all at once: what is measured inherits this process's peak."""

    CHUNK = b"\0" * (1 << 20)

    def __init__(self, count, head=b""):
        self.count, self.head = count, head

    def __len__(self):
        return len(self.head) + self.count

    def chunks(self):
        yield self.head
        for begin in range(0, self.count, len(self.CHUNK)):
            yield self.CHUNK[:min(len(self.CHUNK), self.count - begin)]

    def crc(self):
        value = 0
        for chunk in self.chunks():
            value = zlib.crc32(chunk, value)
        return value


def squeeze(data):
    compressor = zlib.compressobj(9, zlib.DEFLATED, -15)
    chunks = data.chunks() if isinstance(data, Zeros) else [data]
    return b"".join(compressor.compress(chunk) for chunk in chunks) + compressor.flush()
