#!/bin/sh
# Checks for packages that pip cannot install: GoogleTest, and Python.h for the module _C. As root it installs Debian's
# packages. Otherwise it reports missing ones, and continues without _C, but not without GoogleTest.
# system_packages.sh PYTHON [--optional]: with --optional nothing is installed and nothing fails.
python=$1
gtest=
header=
printf '#include <gtest/gtest.h>\n' | ${CXX:-c++} -x c++ -E - >/dev/null 2>&1 || gtest=libgtest-dev
"$python" -c 'import os, sys, sysconfig; sys.exit(not os.path.exists(sysconfig.get_path("include") + "/Python.h"))' ||
  header=python3-dev
missing=$(echo $gtest $header)
if [ -z "$missing" ]; then exit 0; fi
if [ "$2" = --optional ]; then
  echo "not installed: $missing; what needs it is left out"
  exit 0
fi
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
  { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing; } >/dev/null 2>&1 &&
    exit 0
fi
echo "missing system packages: $missing; install them as root: apt-get install $missing" >&2
test -z "$gtest"
