#!/usr/bin/env bash
# Usage: stub_libraries.sh ENVIRONMENT
#
# Let a build of torch for CUDA be imported where CUDA's libraries are not installed: for tests on the CPU.
# The plain wheel for Linux needs some gigabytes of libraries even to be imported. This makes a library for each that
# is missing, under ENVIRONMENT/stubs; run Python with LD_LIBRARY_PATH=ENVIRONMENT/stubs. Each function in them answers
# 100, "no CUDA-capable device", so that torch finds no GPU. It does nothing for a build that needs none of them.
# Needs gcc and binutils, on Linux with x86-64.
set -euo pipefail
environment=$1
packages=$(ls -d "$environment"/lib/python3.*/site-packages)
built=$packages/torch/lib
made=$environment/stubs
mkdir -p "$made"

needed() { for each in "$built"/*.so*; do readelf -d "$each" | sed -n 's/.*NEEDED.*\[\(.*\)\]/\1/p'; done | sort -u; }
missing() { needed | grep -E '^lib(cu|nv|nccl)' | while read -r name; do [ -e "$built/$name" ] || echo "$name"; done; }
names() { nm -D "$@" 2>/dev/null | awk -v at="$field" 'NF >= at {print $at}' | sed 's/@.*//' | sort -u; }
versions() { # of the library $1, that torch asks for
    for each in "$built"/*.so*; do
        readelf -VW "$each" 2>/dev/null | awk -v name="$1" '/File: / {file = $0; sub(/.*File: /, "", file); sub(/ .*/, "", file)}
            /Name: / && file == name {sub(/.*Name: /, ""); sub(/ .*/, ""); print}'
    done | sort -u
}

[ -n "$(missing)" ] || exit 0
field=2 names --undefined-only "$built"/*.so* "$packages"/torch/_C*.so >"$made/wanted"
system=$(ldconfig -p | awk '/x86-64/ && /lib(c|m|dl|pthread|rt|gcc_s|z|stdc\+\+)\.so|ld-linux/ {print $NF}')
# shellcheck disable=SC2086 - a list of files
field=3 names --defined-only "$built"/*.so* $system >"$made/defined"
text='cudaGetError\(String\|Name\)'
comm -23 "$made/wanted" "$made/defined" | grep -v "^_\?Py\|^$text\$" >"$made/absent"
{
    echo .text
    while read -r name; do printf '.globl %s\n.type %s,@function\n%s:\n' "$name" "$name" "$name"; done <"$made/absent"
    printf 'xor %%eax,%%eax\nmov $100,%%eax\nret\n'
    for name in cudaGetErrorString cudaGetErrorName; do printf '.globl %s\n.type %s,@function\n%s:\n' $name $name $name; done
    printf 'lea .Ltext(%%rip),%%rax\nret\n.Ltext: .asciz "no CUDA-capable device"\n.section .note.GNU-stack,"",@progbits\n'
} >"$made/stub.s"
missing | while read -r name; do
    : >"$made/$name.map"
    symbols='{ global: *; };'
    for version in $(versions "$name"); do
        echo "$version $symbols" >>"$made/$name.map"
        symbols='{ };'
    done
    script=()
    [ ! -s "$made/$name.map" ] || script=("-Wl,--version-script=$made/$name.map")
    gcc -shared -nostdlib "-Wl,-soname,$name" "${script[@]}" -o "$made/$name" "$made/stub.s"
done
