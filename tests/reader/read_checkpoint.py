#!/usr/bin/env python3
"""Lists what is in a checkpoint: manifest, segments, key groups, entries, records in flight.

Written from FORMAT.md alone, with nothing but the standard library, to show that the page is enough. Everything
that the page calls damage and that a reader meets on its way is checked; a Zstandard decoder is not part of the
standard library, so segments of that compression are refused.

    read_checkpoint.py JOB-FOLDER CHECKPOINT-NUMBER
"""

import struct
import sys
import zlib
from pathlib import Path

VERSION_MIN, VERSION, PAGE_FORMAT = 1, 1, 1
CHUNK_LEN_MAX = 65536
KEY_GROUP_NONE, NO_PAGE, WIDTH_ANY = 65535, 4294967295, 65535
LEN_OVERFLOW = 32768
PART_HEADER, PART_FRAME, PART_INDEX, PART_FOOTER, PART_TRAILER, PART_MANIFEST, PART_CHUNK = range(1, 8)
PART_IN_FLIGHT, PART_BATCH = 8, 9
HASH_FIXED, HASH, LEAF, INNER, OVERFLOW = range(1, 6)
COMPRESSIONS = ["none", "lz4", "zstd"]
KINDS = ["hash", "ordered"]
DISTRIBUTIONS = ["by key", "split", "union", "broadcast"]
PARTICIPANTS = {1: "coordinator", 2: "hook"}
MODES = {1: "split", 2: "union", 3: "broadcast", 4: "plain"}


class Damaged(Exception):
    """The bytes are not what they were written as."""


class Unsupported(Exception):
    """A newer program wrote them, or one with more libraries is needed."""


def check(what, condition):
    if not condition:
        raise Damaged(what)


class Layout:
    """A structure of the page: the names of its fields and, as `struct` has it, their sizes."""

    def __init__(self, sizes, fields):
        self.struct, self.fields = struct.Struct("<" + sizes), fields.split()

    def read(self, data, offset=0):
        check("a structure is cut short", 0 <= offset <= len(data) - self.struct.size)
        fields = dict(zip(self.fields, self.struct.unpack_from(data, offset)))
        for name, value in fields.items():
            if name.startswith("reserved") or name in ("fence_lo", "fence_hi"):
                check(f"{name} is not 0", not (any(value) if isinstance(value, bytes) else value))
        return fields

    @property
    def size(self):
        return self.struct.size


SEGMENT_HEADER = Layout(
    "8s2H4B16s16s5Q2I2H24sI",
    "magic version flags block_size_log2 frame_size_log2 compression reserved file_id job_id checkpoint epoch"
    " base_checkpoint attempt hash_seed subtask max_parallelism first_key_group last_key_group reserved2 checksum",
)
TRAILER = Layout(
    "8s2HI3Q16s2I",
    "magic version reserved footer_checksum footer_offset footer_len file_len file_id reserved2 checksum",
)
FOOTER_HEAD = Layout(
    "4I4Q", "header_checksum key_group_count state_count file_count frame_count index_len entry_count data_len"
)
KEY_GROUP_ROW = Layout(
    "2HI3Q4I",
    "key_group section_count index_len index_offset data_offset data_len first_frame frame_count index_checksum"
    " delta_count",
)
STATE_HEAD = Layout(
    "H2B8HQ",
    "state_id kind distribution operator_len state_len key_codec_len key_codec_version value_codec_len"
    " value_codec_version key_width value_width entry_count",
)
SECTION_HEAD = Layout("H2BIQ2I", "state_id depth reserved row_count entry_count next_lpn root_lpn")
INDEX_ROW = Layout("I2BH3I", "lpn depth kind flags file_no frame_no checksum")
CHUNK_HEAD = Layout("3I", "raw_len stored_len checksum")
PAGE_HEADER = Layout(
    "H2B3H2B2HQ3I2H2I4H8s",
    "page_type format frame_size_log2 n_slots n_used stride local_depth flags state_id key_group hash_prefix lpn"
    " delta_base epoch heap_top garbage left_lpn right_lpn fence_lo fence_hi prefix_len key_width reserved",
)
RECORD_HEAD = Layout("2H", "key_len value_len")
OVERFLOW_REF = Layout("2IQ", "first_lpn len digest")
OVERFLOW_HEAD = Layout("2I", "next_lpn len")
TREE_SLOT = Layout("2HI", "offset key_len head")
TREE_RECORD_HEAD = Layout("H", "value_len")
MANIFEST_HEADER = Layout(
    "8s4H16s3Q2I",
    "magic version flags job_name_len reserved job_id checkpoint wall_time_ms hash_seed max_parallelism reserved2",
)
MANIFEST_TAIL = Layout("QI4s", "len checksum magic")
ELEMENT_HEAD = Layout("B3sI", "tag reserved len")
PARTICIPANT = Layout("2BH", "kind reserved name_len")
VERTEX = Layout("I", "parallelism")
SUBTASK = Layout("I2H", "index flags reserved")
SEGMENT = Layout("16s2QI2H", "file_id len used_len footer_checksum first_key_group last_key_group")
IN_FLIGHT = Layout("16sQI", "file_id len checksum")
STATE = Layout("2BH", "mode reserved operator_len")
IN_FLIGHT_HEADER = Layout(
    "8s2HI16s16s2Q2I", "magic version flags subtask file_id job_id checkpoint attempt channel_count reserved"
)
CHANNEL_ROW = Layout("2HIQ", "edge sender batch_count len")
BATCH_HEAD = Layout("2I", "len checksum")
IN_FLIGHT_TAIL = Layout("QI4s", "len checksum magic")


def checksum(part, epoch, file_id, data, state_id=0, key_group=0, lpn=0):
    identity = struct.pack("<BBHHHIIQ16s", part, 0, state_id, key_group, 0, lpn, 0, epoch, file_id)
    return zlib.crc32(data, zlib.crc32(identity))


def check_version(what, data, is_whole):
    """`is_whole` says of bytes whether their checksum is right."""
    version = int.from_bytes(data[8:10], "little")
    if version > VERSION and not is_whole(data[:8] + VERSION.to_bytes(2, "little") + data[10:]):
        raise Unsupported(f"{what} has version {version}")
    check(f"version of {what}", VERSION_MIN <= version <= VERSION)


def part_of(data, offset, length):
    check("a length reaches beyond the data", 0 <= offset and offset + length <= len(data))
    return data[offset : offset + length]


def zeros(what, data):
    check(f"{what} is not zero", not any(data))


class Reader:
    """Takes one thing after the other off some bytes."""

    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, length):
        self.at += length
        return part_of(self.data, self.at - length, length)

    def layout(self, layout):
        return layout.read(self.take(layout.size))

    def name(self, length):
        return self.take(length).decode("utf-8")

    def rest(self):
        return self.take(len(self.data) - self.at)


def lz4_block(block):
    """An LZ4 block: sequences of literals and of copies from what is there already."""
    source, out = Reader(block), bytearray()

    def length(start):
        total, more = start, start == 15
        while more:
            byte = source.take(1)[0]
            total, more = total + byte, byte == 255
        return total

    while True:
        token = source.take(1)[0]
        out += source.take(length(token >> 4))
        if source.at == len(block):
            return bytes(out)
        start = len(out) - int.from_bytes(source.take(2), "little")
        copied = length(token & 15) + 4
        check("an LZ4 block copies from nowhere", 0 <= start < len(out))
        check("an LZ4 block is too long", len(out) + copied <= CHUNK_LEN_MAX)
        for at in range(start, start + copied):
            out.append(out[at])


class Manifest:
    """The file `_metadata`."""

    def __init__(self, data):
        self.header = MANIFEST_HEADER.read(data)
        check("magic of the manifest", self.header["magic"] == b"SLKWMAN\0")
        tail = MANIFEST_TAIL.read(data, len(data) - MANIFEST_TAIL.size)
        checkpoint, job_id = self.header["checkpoint"], self.header["job_id"]
        is_whole = lambda data: checksum(PART_MANIFEST, checkpoint, job_id, data[:-8]) == tail["checksum"]
        check_version("the manifest", data, is_whole)
        check("end of the manifest", tail["magic"] == b"SLKM")
        check("length of the manifest", tail["len"] == len(data) and len(data) % 4096 == 0)
        check("checksum of the manifest", is_whole(data))
        reader = Reader(data[: -MANIFEST_TAIL.size])
        reader.take(MANIFEST_HEADER.size)
        self.job_name = reader.name(self.header["job_name_len"])
        self.participants, self.vertices = [], []
        self.read_elements(reader)
        check("padding of the manifest", len(reader.data) - reader.at < 4096)
        zeros("padding of the manifest", reader.rest())

    def read_elements(self, reader):
        while True:
            head = reader.layout(ELEMENT_HEAD)
            body = Reader(reader.take(head["len"]))
            if head["tag"] == 0:
                return check("the end has no bytes", not body.data)
            read = {
                1: self.vertex,
                2: self.subtask,
                3: self.segment,
                4: self.state,
                5: self.partition,
                6: self.in_flight,
                7: self.in_flight_file,
                8: self.participant,
            }
            if head["tag"] not in read:
                raise Unsupported(f"manifest element {head['tag']}")
            try:
                read[head["tag"]](body)
            except IndexError:
                raise Damaged("an element belongs to none") from None

    def participant(self, body):
        participant = body.layout(PARTICIPANT)
        if participant["kind"] not in PARTICIPANTS:
            raise Unsupported(f"kind {participant['kind']} of a participant")
        check("participants come before vertices", not self.vertices)
        name = body.name(participant["name_len"])
        self.participants.append({**participant, "name": name, "state": body.rest()})

    def vertex(self, body):
        vertex = body.layout(VERTEX)
        self.vertices.append({**vertex, "uid": body.rest().decode("utf-8"), "subtasks": []})

    def subtask(self, body):
        self.vertices[-1]["subtasks"].append({**body.layout(SUBTASK), "segments": [], "in_flight": [], "states": []})

    def segment(self, body):
        segment = {**body.layout(SEGMENT), "path": self.path(body)}
        self.vertices[-1]["subtasks"][-1]["segments"].append(segment)

    def path(self, body):
        path = body.rest().decode("utf-8")
        check("path of a file", all(part not in ("", ".", "..") for part in path.split("/")))
        check("path of a file", "\\" not in path and "\0" not in path)
        return path

    def in_flight(self, body):
        self.vertices[-1]["subtasks"][-1]["in_flight"].append({"path": None, "records": InFlight(body.data)})

    def in_flight_file(self, body):
        file = {**body.layout(IN_FLIGHT), "path": self.path(body)}
        self.vertices[-1]["subtasks"][-1]["in_flight"].append(file)

    def state(self, body):
        state = body.layout(STATE)
        if state["mode"] not in MODES:
            raise Unsupported(f"mode {state['mode']} of a state")
        operator = body.name(state["operator_len"])
        names = {"operator": operator, "name": body.rest().decode("utf-8"), "partitions": []}
        self.vertices[-1]["subtasks"][-1]["states"].append({**state, **names})

    def partition(self, body):
        self.vertices[-1]["subtasks"][-1]["states"][-1]["partitions"].append(body.data)


class InFlight:
    """Records in flight, of which a manifest says what `listed` says if they are a file."""

    def __init__(self, data, listed=None):
        self.data, self.header = data, IN_FLIGHT_HEADER.read(data)
        check("magic of records in flight", self.header["magic"] == b"SLKWFLT\0")
        tail = IN_FLIGHT_TAIL.read(data[-IN_FLIGHT_TAIL.size :])
        is_whole = lambda data: self.checksum(PART_IN_FLIGHT, data[:-8]) == tail["checksum"]
        check_version("a file of records in flight", data, is_whole)
        check("end of records in flight", tail["magic"] == b"SLKF" and tail["len"] == len(data))
        check("checksum of records in flight", is_whole(data))
        check("flags of records in flight", not self.header["flags"])
        if listed:
            known = (self.header["file_id"], len(data), tail["checksum"])
            check("the manifest lists another file", known == (listed["file_id"], listed["len"], listed["checksum"]))
        reader = Reader(data[: -IN_FLIGHT_TAIL.size])
        reader.take(IN_FLIGHT_HEADER.size)
        rows = [reader.layout(CHANNEL_ROW) for _ in range(self.header["channel_count"])]
        places = [(row["edge"], row["sender"]) for row in rows]
        check("order of channels", places and all(one < other for one, other in zip(places, places[1:])))
        self.channels = [(row, self.batches(row, Reader(reader.take(row["len"])))) for row in rows]
        check("bytes behind the batches", not reader.rest())

    def checksum(self, part, data, **place):
        return checksum(part, self.header["checkpoint"], self.header["file_id"], data, **place)

    def batches(self, row, reader):
        batches = []
        for number in range(row["batch_count"]):
            head = reader.layout(BATCH_HEAD)
            batch = reader.take(head["len"])
            place = {"state_id": row["edge"], "key_group": row["sender"], "lpn": number}
            found = self.checksum(PART_BATCH, struct.pack("<I", head["len"]) + batch, **place)
            check("checksum of a batch", found == head["checksum"])
            batches.append(batch)
        check("batches of a channel", batches and not reader.rest())
        return batches


class Segment:
    """A segment, of which a manifest says what `listed` says."""

    def __init__(self, data, listed):
        self.data, self.header = data, SEGMENT_HEADER.read(data)
        header = self.header
        check("magic of a segment", header["magic"] == b"SLKWSEG\0")
        start = data[: SEGMENT_HEADER.size]
        is_whole = lambda start: self.checksum(PART_HEADER, start[:-4]) == header["checksum"]
        check_version("a segment", start, is_whole)
        check("checksum of a header", is_whole(start))
        if header["compression"] >= len(COMPRESSIONS) or header["flags"] or header["base_checkpoint"]:
            raise Unsupported("a field of the header")
        self.block_size, self.frame_size = 1 << header["block_size_log2"], 1 << header["frame_size_log2"]
        zeros("rest of the first block", data[SEGMENT_HEADER.size : self.block_size])
        check("the manifest lists another file", (listed["file_id"], listed["len"]) == (header["file_id"], len(data)))
        self.read_trailer(listed)
        self.read_footer()

    def checksum(self, part, data, **place):
        return checksum(part, self.header["epoch"], self.header["file_id"], data, **place)

    def read_trailer(self, listed):
        tail = self.data[-TRAILER.size :]
        self.trailer = TRAILER.read(tail)
        check("magic of a trailer", self.trailer["magic"] == b"SLKWEND\0")
        file_id = self.trailer["file_id"]
        is_whole = lambda tail: checksum(PART_TRAILER, 0, file_id, tail[:-4]) == self.trailer["checksum"]
        check_version("a trailer", tail, is_whole)
        check("checksum of a trailer", is_whole(tail))
        check("id of a trailer", self.trailer["file_id"] == self.header["file_id"])
        check("length of a segment", self.trailer["file_len"] == len(self.data))
        check("checksum in the manifest", self.trailer["footer_checksum"] == listed["footer_checksum"])

    def read_footer(self):
        offset, length = self.trailer["footer_offset"], self.trailer["footer_len"]
        data = part_of(self.data, offset, length)
        check("checksum of a footer", self.checksum(PART_FOOTER, data) == self.trailer["footer_checksum"])
        zeros("padding behind a footer", self.data[offset + length : -TRAILER.size])
        reader = Reader(data)
        head = reader.layout(FOOTER_HEAD)
        check("checksum of the header", head["header_checksum"] == self.header["checksum"])
        if head["file_count"]:
            raise Unsupported("other files")
        self.groups = [reader.layout(KEY_GROUP_ROW) for _ in range(head["key_group_count"])]
        self.states = {}
        for _ in range(head["state_count"]):
            state = reader.layout(STATE_HEAD)
            for name in ("operator", "state", "key_codec", "value_codec"):
                state[name] = reader.name(state[name + "_len"])
            self.states[state["state_id"]] = state
        check("bytes behind a footer", not reader.rest())

    def frames(self, group):
        data = part_of(self.data, group["data_offset"], group["data_len"])
        if self.header["compression"]:
            data = b"".join(self.chunks(group, Reader(data)))
        check("frames of a key group", len(data) == group["frame_count"] * self.frame_size)
        return data

    def chunks(self, group, reader):
        number = 0
        while reader.at < len(reader.data):
            at, head = reader.at, reader.layout(CHUNK_HEAD)
            check("length of a chunk", 0 < head["stored_len"] <= head["raw_len"] <= CHUNK_LEN_MAX)
            stored = reader.take(head["stored_len"])
            found = self.checksum(
                PART_CHUNK, part_of(reader.data, at, 8) + stored, key_group=group["key_group"], lpn=number
            )
            check("checksum of a chunk", found == head["checksum"])
            raw = stored if len(stored) == head["raw_len"] else self.decompress(stored)
            check("frames of a chunk", len(raw) == head["raw_len"] and len(raw) % self.frame_size == 0)
            yield raw
            number += 1

    def decompress(self, stored):
        if COMPRESSIONS[self.header["compression"]] != "lz4":
            raise Unsupported("zstd: the standard library has no decoder for it; use a Zstandard library")
        return lz4_block(stored)

    def sections(self, group):
        """The pages of each state of a key group, by lpn."""
        index = part_of(self.data, group["index_offset"], group["index_len"])
        found = self.checksum(PART_INDEX, index, key_group=group["key_group"])
        check("checksum of an index", found == group["index_checksum"])
        frames, reader = self.frames(group), Reader(index)
        for _ in range(group["section_count"]):
            head = reader.layout(SECTION_HEAD)
            rows = [reader.layout(INDEX_ROW) for _ in range(head["row_count"])]
            yield head, {row["lpn"]: self.page(group, head, row, frames) for row in rows}
        check("bytes behind an index", not reader.rest())

    def page(self, group, section, row, frames):
        frame = part_of(frames, (row["frame_no"] - group["first_frame"]) * self.frame_size, self.frame_size)
        place = {"state_id": section["state_id"], "key_group": group["key_group"], "lpn": row["lpn"]}
        check("checksum of a frame", self.checksum(PART_FRAME, frame, **place) == row["checksum"])
        page = PAGE_HEADER.read(frame)
        if page["format"] > PAGE_FORMAT:
            raise Unsupported(f"page format {page['format']}")
        check("name of a page", all(page[name] == value for name, value in place.items()))
        check("type of a page", page["page_type"] == row["kind"] and page["local_depth"] == row["depth"])
        return page, frame

    def entries(self, group):
        """State, key and value of every entry of a key group."""
        for section, pages in self.sections(group):
            entries = list(Pages(pages, self.frame_size).entries())
            check("entries of a state", len(entries) == section["entry_count"])
            yield from ((section["state_id"], key, value) for key, value in entries)


class Pages:
    """The pages of a state in a key group."""

    def __init__(self, pages, frame_size):
        self.pages, self.frame_size = pages, frame_size

    def entries(self):
        for page, frame in self.pages.values():
            kind = page["page_type"]
            if kind in (HASH_FIXED, HASH):
                yield from self.hash_entries(page, frame)
            elif kind == LEAF:
                yield from self.leaf_entries(page, frame)
            elif kind not in (INNER, OVERFLOW):
                raise Unsupported(f"page type {kind}")

    def hash_entries(self, page, frame):
        slots = page["n_slots"]
        behind_tags = 64 + (slots + 15) // 16 * 16
        used = [slot for slot in range(slots) if frame[64 + slot] & 127]
        check("slots in use", len(used) == page["n_used"])
        for slot in used:
            if page["page_type"] == HASH_FIXED:
                record = part_of(frame, behind_tags + slot * page["stride"], page["stride"])
                yield record[: page["key_width"]], record[page["key_width"] :]
            else:
                offset = struct.unpack_from("<H", frame, behind_tags + 2 * slot)[0]
                reader = Reader(frame[offset:])
                head = reader.layout(RECORD_HEAD)
                key = self.content(reader, head["key_len"])
                yield key, self.content(reader, head["value_len"])

    def leaf_entries(self, page, frame):
        slots_at = 64 + (64 if self.frame_size >= 1024 else 0)
        prefix = frame[self.frame_size - page["prefix_len"] :]
        for number in range(page["n_slots"]):
            slot = TREE_SLOT.read(frame, slots_at + number * TREE_SLOT.size)
            reader = Reader(frame[slot["offset"] :])
            head = reader.layout(TREE_RECORD_HEAD)
            if slot["key_len"] & LEN_OVERFLOW:
                here = reader.take((slot["key_len"] & ~LEN_OVERFLOW) - OVERFLOW_REF.size)
                rest = here + self.chain(reader.layout(OVERFLOW_REF))
            else:
                rest = reader.take(slot["key_len"])
            yield prefix + rest, self.content(reader, head["value_len"])

    def content(self, reader, length):
        if length & LEN_OVERFLOW:
            return self.chain(reader.layout(OVERFLOW_REF))
        return reader.take(length)

    def chain(self, reference):
        data, lpn, left = b"", reference["first_lpn"], len(self.pages)
        while lpn != NO_PAGE:
            check("a chain leads nowhere or in a circle", lpn in self.pages and left > 0)
            page, frame = self.pages[lpn]
            check("page of a chain", page["page_type"] == OVERFLOW)
            head = OVERFLOW_HEAD.read(frame, PAGE_HEADER.size)
            data += part_of(frame, PAGE_HEADER.size + OVERFLOW_HEAD.size, head["len"])
            lpn, left = head["next_lpn"], left - 1
        check("length of a chain", len(data) == reference["len"])
        return data


def shown(data):
    """Bytes for people: all of a few, of more the first and how to recognise the others."""
    if len(data) <= 40:
        return data.hex() or "-"
    return f"{data[:8].hex()}... {len(data)} bytes, CRC-32 {zlib.crc32(data):08x}"


def number_of(file_id):
    return f"{int.from_bytes(file_id, 'little'):032x}"


def list_manifest(manifest):
    header = manifest.header
    yield f"checkpoint {header['checkpoint']} of job {number_of(header['job_id'])} \"{manifest.job_name}\""
    finished = ", the job has finished" if header["flags"] & 1 else ""
    yield f"taken at {header['wall_time_ms']} ms, {header['max_parallelism']} key groups{finished}"
    for participant in manifest.participants:
        kind = PARTICIPANTS[participant["kind"]]
        yield f"{kind} \"{participant['name']}\" {shown(participant['state'])}"
    for vertex in manifest.vertices:
        yield f"vertex \"{vertex['uid']}\" with parallelism {vertex['parallelism']}"
        for subtask in vertex["subtasks"]:
            yield f"  subtask {subtask['index']}" + (", finished" if subtask["flags"] & 1 else "")
            for segment in subtask["segments"]:
                groups = f"{segment['first_key_group']} to {segment['last_key_group']}"
                yield f"    segment {segment['path']}: {segment['len']} bytes, key groups {groups}"
            for file in subtask["in_flight"]:
                if file["path"]:
                    yield f"    in flight {file['path']}: {file['len']} bytes"
                else:
                    yield f"    in flight: {len(file['records'].data)} bytes"
                    yield from ("    " + line for line in list_channels(file["records"]))
            for state in subtask["states"]:
                yield f"    state \"{state['operator']}\" \"{state['name']}\", {MODES[state['mode']]}"
                yield from (f"      partition {shown(data)}" for data in state["partitions"])


def list_channels(records):
    for row, batches in records.channels:
        yield f"  channel {row['edge']} from {row['sender']}: {len(batches)} batches"
        yield from (f"    batch {shown(batch)}" for batch in batches)


def list_segment(path, segment):
    header = segment.header
    stored = f"{COMPRESSIONS[header['compression']]}, frames of {segment.frame_size} bytes"
    yield f"segment {path}: {stored}, checkpoint {header['checkpoint']}, subtask {header['subtask']}"
    for state in segment.states.values():
        codecs = " -> ".join(f"{state[name]}.{state[name + '_version']}" for name in ("key_codec", "value_codec"))
        kind = f"{KINDS[state['kind']]}, {DISTRIBUTIONS[state['distribution']]}"
        count = f"{state['entry_count']} entries"
        yield f"  state {state['state_id']} \"{state['operator']}\" \"{state['state']}\": {kind}, {codecs}, {count}"
    for group in segment.groups:
        name = "no key group" if group["key_group"] == KEY_GROUP_NONE else f"key group {group['key_group']}"
        entries = sorted(segment.entries(group))
        yield f"  {name}: {len(entries)} entries"
        for state, key, value in entries:
            yield f"    {state}: {shown(key)} = {shown(value)}"


def list_checkpoint(job, number):
    manifest = Manifest((job / f"chk-{number}" / "_metadata").read_bytes())
    check("number of the checkpoint", manifest.header["checkpoint"] == number)
    yield from list_manifest(manifest)
    for vertex in manifest.vertices:
        for subtask in vertex["subtasks"]:
            for listed in subtask["segments"]:
                path = listed["path"]
                yield from list_segment(path, Segment((job / path).read_bytes(), listed))
            for listed in subtask["in_flight"]:
                if path := listed["path"]:
                    records = InFlight((job / path).read_bytes(), listed)
                    place = f"checkpoint {records.header['checkpoint']}, subtask {records.header['subtask']}"
                    yield f"in flight {path}: {place}"
                    yield from list_channels(records)


def main(arguments):
    if len(arguments) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    try:
        for line in list_checkpoint(Path(arguments[0]), int(arguments[1])):
            print(line)
    except (Damaged, Unsupported, OSError, UnicodeDecodeError) as why:
        kind = type(why).__name__.lower() if isinstance(why, (Damaged, Unsupported)) else "damaged"
        print(f"{kind}: {why}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
