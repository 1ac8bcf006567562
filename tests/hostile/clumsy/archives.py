"""Zip files that are more than they look, and folders that no gradebook can name."""

import io
import struct
import zipfile

from clumsy.making import leads_to, zipped


def compressed(files, method):
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", method) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return data.getvalue()


def shared_body(members, name, body):
    """A zip file whose members all name one body."""
    with zipfile.ZipFile(io.BytesIO(zipped({name: body}))) as archive:
        end, central = archive.start_dir, zipped({name: body})[archive.start_dir : -22]
    last = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, members, members, members * len(central), end, 0)
    return zipped({name: body})[:end] + members * central + last


@leads_to("it is compressed by another method than deflate")
def a_zip_of_one_bzip2_member(s):
    s.files = {"homework.zip": compressed({"00_tiny.ipynb": s.json()}, zipfile.ZIP_BZIP2)}


@leads_to("holds a notebook of 1024 MB")
def a_zip_of_a_kilobyte_that_would_be_a_gigabyte(s):
    """The size is a claim, and the bytes behind it are as few."""
    data = bytearray(compressed({"00_tiny.ipynb": bytes(1 << 20)}, zipfile.ZIP_BZIP2))
    place = data.index(b"PK\1\2") + 24
    data[place : place + 4] = struct.pack("<L", 1 << 30)
    s.files = {"homework.zip": bytes(data)}


@leads_to("some of its files share their bytes")
def a_zip_of_2000_members_that_share_one_body(s):
    s.files = {"homework.zip": shared_body(2000, "00_tiny.ipynb", s.json())}


@leads_to("it holds more than 20000 files")
def a_zip_of_very_many_members(s):
    s.files = {"homework.zip": zipped({f"{number}.ipynb": b"" for number in range(20_001)})}


@leads_to(remark="1 files beside the notebook were left out")
def a_zip_with_a_file_beside_it_of_another_method(s):
    data = io.BytesIO(zipped({"00_tiny.ipynb": s.json()}))
    with zipfile.ZipFile(data, "a", zipfile.ZIP_LZMA) as archive:
        archive.writestr("data.csv", "1,2")
    s.files = {"homework.zip": data.getvalue()}


@leads_to("is encrypted")
def a_zip_with_a_password(s):
    data = bytearray(zipped({"00_tiny.ipynb": s.json()}))
    data[data.index(b"PK\1\2") + 8] |= 1
    s.files = {"homework.zip": bytes(data)}


@leads_to("has 200 letters, and a gradebook takes 128")
def a_folder_whose_name_has_200_letters(s):
    """Handed in by a student whose folder's name no column of a database holds."""
