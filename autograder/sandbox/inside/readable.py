"""The files that student code can read besides its own scratch folder: Python, its packages, the system's libraries."""

import os
import site
import sys
import sysconfig

SYSTEM = ("/usr", "/lib", "/lib64", "/bin", "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/fonts", "/etc/localtime")
DEVICES = ("/dev/null", "/dev/zero", "/dev/random", "/dev/urandom")
OF_ITSELF = ("/proc/self/maps", "/proc/self/stat", "/proc/self/statm", "/proc/self/status")
OWN = (*OF_ITSELF, "/proc/cpuinfo", "/proc/meminfo")
"""The files of /proc on the process itself and on the machine; the rest would show other processes."""


def python_folders() -> list[str]:
    """Return every path outside of the repository that an interpreter with the course's packages reads.

    Of a link, such as a virtual environment that is one, also what it leads to.
    """
    paths = {sys.prefix, sys.base_prefix, sysconfig.get_path("stdlib"), os.path.realpath(sys.executable)}
    paths |= {path for path in sys.path if "site-packages" in path or "dist-packages" in path}
    paths |= set(site.getsitepackages())
    found = [path for path in (*paths, *SYSTEM) if os.path.exists(path)]
    return sorted({*found, *map(os.path.realpath, found)})
