#!/bin/bash
# Makes a release in out/release: release.sh [PART..]. Parts, all of them by default:
#
#   wheels     a manylinux wheel for each of $ARCHS (default: x86_64 aarch64), by scripts/build-wheel.sh
#   program    for each wheel a tarball of the program that is in it, with manual, completions and licences
#   context    the container images' build context, out of the commit, with the licences of what is linked
#   chart      the Helm chart as a package
#   sbom       a CycloneDX bill of materials for each of $ARCHS
#   changelog  the version's section of CHANGELOG.md
#
# SHA256SUMS over all files of out/release comes last, always.
#
#   RELEASE_OUT       another folder than out/release
#   RELEASE_VENV      the Python environment with maturin and zig (default .venv, see scripts/install-python.sh)
#   RELEASE_WHEELS    a folder with wheels that are built already
#   RELEASE_PROGRAM   a built program, such as target/release/headwater, for this machine's tarball; it needs the C
#                     library of this machine or a later one, which its name says
#   RELEASE_DIRTY=1   takes a tree with changes that are not committed
#
# Reproducible: archives have sorted names, no owner and one time, $SOURCE_DATE_EPOCH, which is the commit's unless it is
# set. Compilers write no path of this machine: the tree becomes /headwater, Cargo's folder /cargo,
# Cargo's target folder /target.
set -euo pipefail

cd "$(dirname "$0")/.."
tree=$PWD
mkdir -p "${RELEASE_OUT:-out/release}"
out=$(cd "${RELEASE_OUT:-out/release}" && pwd)
venv=${RELEASE_VENV:-.venv}
read -ra archs <<<"${ARCHS:-x86_64 aarch64}"
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
commit=$(git rev-parse HEAD)
export HEADWATER_COMMIT=${commit:0:12}
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
export LC_ALL=C TZ=UTC
umask 022
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() { echo "release: $*" >&2 && exit 1; }

if [ -n "$(git status --porcelain)" ] && [ "${RELEASE_DIRTY:-}" != 1 ]; then
    fail "the tree has changes that are not committed (RELEASE_DIRTY=1 takes it as it is)"
fi
[ -n "$version" ] || fail "Cargo.toml names no version"
chart_version=$(sed -n 's/^version: *//p' helm/headwater/Chart.yaml)
[ "$chart_version" = "$version" ] || fail "helm/headwater/Chart.yaml has version $chart_version, Cargo.toml $version"

# pack FOLDER NAME FILE: the folder NAME within FOLDER as FILE, equal bytes for equal files.
pack() {
    # gzip of a pipe writes neither a name nor a time.
    tar --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner --format=gnu \
        --mode='u+rw,go+r,go-w,a+X' -C "$1" -cf - "$2" | gzip -n -9 >"$3"
    echo "$3: $(stat -c %s "$3") bytes"
}

# Paths that compilers would write into what they make. Of several that fit, the last one holds.
remap() {
    local from map='' prefixes=''
    for from in "$tree=/headwater" "${CARGO_HOME:-$HOME/.cargo}=/cargo" "${CARGO_TARGET_DIR:-$tree/target}=/target"; do
        map+=" --remap-path-prefix=$from"
        prefixes+=" -ffile-prefix-map=$from"
    done
    export RUSTFLAGS="${RUSTFLAGS:-}$map" CFLAGS="${CFLAGS:-}$prefixes" CXXFLAGS="${CXXFLAGS:-}$prefixes"
}

wheel_of() { # wheel_of ARCH: its wheel in out/release
    local found=("$out"/headwater-"$version"-*"_$1".whl)
    [ -e "${found[0]}" ] && [ ${#found[@]} -eq 1 ] && echo "${found[0]}"
}

part_wheels() {
    local from=${RELEASE_WHEELS:-}
    if [ -z "$from" ]; then
        from=$work/wheels
        (remap && scripts/build-wheel.sh "$venv" "$from" "${archs[@]}")
    fi
    local arch found
    for arch in "${archs[@]}"; do
        found=("$from"/headwater-"$version"-*"_$arch".whl)
        [ -e "${found[0]}" ] || fail "$from has no wheel of $version for $arch"
        cp "${found[@]}" "$out/"
        echo "$out/$(basename "${found[0]}"): $(stat -c %s "${found[0]}") bytes"
    done
}

# needs PROGRAM: shared libraries, and the oldest C library that has all its symbols.
needs() {
    readelf -d "$1" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' | paste -sd ' '
    readelf -V "$1" | grep -oE 'GLIBC_[0-9.]+' | sort -Vu | tail -n 1
}

tarball() { # tarball ARCH PROGRAM SUFFIX
    local name=headwater-$version-$1-linux-gnu$3 folder
    folder=$work/$name
    mkdir -p "$folder"
    cp "$2" "$folder/headwater"
    chmod 755 "$folder/headwater"
    cp LICENSE README.md CHANGELOG.md headwater.example.toml "$folder/"
    cp "$(notices)" "$folder/"
    needs "$folder/headwater" >"$folder/NEEDS"
    [ -d "$work/man" ] && cp -r "$work/man" "$folder/man"
    [ -d "$work/completions" ] && cp -r "$work/completions" "$folder/completions"
    pack "$work" "$name" "$out/$name.tar.gz"
    sed 's/^/    needs /' "$folder/NEEDS"
}

notices() { # the file with the licences of what is linked, made once
    local file=$work/THIRD-PARTY-NOTICES.txt
    [ -e "$file" ] || scripts/notices.py --out "$file" >&2
    echo "$file"
}

# texts PROGRAM: the manual's pages and completions, which are the same for all processors.
texts() {
    [ -d "$work/man" ] && return
    "$1" --version >/dev/null 2>&1 || return 0
    mkdir -p "$work/man" "$work/completions"
    "$1" man "$work/man" >/dev/null
    local shell
    for shell in bash zsh fish; do
        "$1" completions "$shell" >"$work/completions/headwater.$shell"
    done
}

part_program() {
    local arch wheel programs=() own
    own=$(uname -m)
    if [ -n "${RELEASE_PROGRAM:-}" ]; then
        cp "$RELEASE_PROGRAM" "$work/program-given"
        strip "$work/program-given"
        texts "$work/program-given"
    fi
    for arch in "${archs[@]}"; do
        if wheel=$(wheel_of "$arch"); then
            (cd "$work" && python3 -m zipfile -e "$wheel" "wheel-$arch")
            programs=("$work/wheel-$arch"/headwater-*.data/scripts/headwater)
            [ -e "${programs[0]}" ] || fail "$wheel has no program"
            cp "${programs[0]}" "$work/program-$arch"
            chmod 755 "$work/program-$arch"
            [ "$arch" != "$own" ] || texts "$work/program-$arch"
        fi
    done
    for arch in "${archs[@]}"; do
        if [ -e "$work/program-$arch" ]; then
            tarball "$arch" "$work/program-$arch" ''
        elif [ "$arch" = "$own" ] && [ -e "$work/program-given" ]; then
            tarball "$arch" "$work/program-given" "-glibc$(needs "$work/program-given" | sed -n 's/GLIBC_//p')"
        else
            echo "release: no program for $arch: there is no wheel of it in $out" >&2
            missing=1
        fi
    done
}

part_context() {
    local name=headwater-$version-context
    mkdir -p "$work/$name"
    git archive "$commit" | tar -x -C "$work/$name"
    # The images take it along.
    cp "$(notices)" "$work/$name/"
    pack "$work" "$name" "$out/$name.tar.gz"
}

part_chart() {
    # What `helm package` writes, but with one time and in order. .helmignore leaves ci/ out, as there.
    mkdir -p "$work/chart"
    git archive "$commit" helm/headwater | tar -x --strip-components=1 -C "$work/chart"
    rm -rf "$work/chart/headwater/ci" "$work/chart/headwater/.helmignore"
    pack "$work/chart" headwater "$out/headwater-chart-$version.tgz"
    local helm=$venv/bin/helm
    [ -x "$helm" ] || helm=$(command -v helm) || helm=
    if [ -z "$helm" ]; then
        echo "release: no helm here: the chart was not rendered" >&2
    else
        "$helm" template run "$out/headwater-chart-$version.tgz" \
            --values helm/headwater/ci/defaults-values.yaml >/dev/null
        echo "    helm $("$helm" version --template '{{.Version}}') renders it"
    fi
}

part_sbom() {
    local arch
    for arch in "${archs[@]}"; do
        scripts/sbom.py --target "$arch-unknown-linux-gnu" --out "$out/headwater-$version-$arch.cdx.json"
    done
}

part_changelog() {
    # From the version's heading to the next one; links at the end of the file are not part of it.
    awk -v heading="## [$version]" '
        index($0, "## [") == 1 { within = index($0, heading) == 1 }
        /^\[[^]]+\]: / { within = 0 }
        within' CHANGELOG.md >"$work/changelog"
    [ -s "$work/changelog" ] || fail "CHANGELOG.md has no section ## [$version]"
    cp "$work/changelog" "$out/CHANGELOG-$version.md"
    echo "$out/CHANGELOG-$version.md: $(wc -l <"$work/changelog") lines"
}

sums() {
    (cd "$out" && find . -type f ! -name SHA256SUMS -printf '%P\n' | sort | xargs -r sha256sum >SHA256SUMS)
    echo "$out/SHA256SUMS: $(wc -l <"$out/SHA256SUMS") files"
}

parts=("$@")
if [ ${#parts[@]} -eq 0 ]; then
    parts=(wheels program context chart sbom changelog)
    rm -rf "${out:?}"/*
fi
missing=0
echo "release $version of ${commit:0:12}, time $SOURCE_DATE_EPOCH, in $out"
for part in "${parts[@]}"; do
    [ "$(type -t "part_$part")" = function ] || fail "there is no part $part"
    "part_$part"
done
sums
exit "$missing"
