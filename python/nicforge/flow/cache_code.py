"""What a cache's elements do, in C. `cache.py` says why.

In these texts `@` stands for the cache's name, with which all names begin, so that they meet none of those the user carries
along; `$key` and `$value` for what the user wrote. `used` is the bucket's clock when a place was used last, 0 if it is free.
What the kernel's verifier has to follow decides the form: keys and values are in tables of their own and not copied together,
since BPF has 512 bytes of stack; which place makes room is the least of one number a place (place, use, and above that
whether it may not go now), since a way through a chain of conditions for each would be walked each time.
"""

from __future__ import annotations

KEEP, FILL, UPDATE = 0, 1, 2


def get(cache, key: str, carried: list[str]) -> str:
    """Hit or miss; a hit makes its place the last one used."""
    values = ", ".join(["pkt", *carried])
    lines = [
        "uint32_t @place = 0;",
        f"if (!nf_lookup(&@_index, $key, &@place)) {{ miss({values}); return; }}",
        f"uint32_t @at = @place / {cache.ways}, @way = @place % {cache.ways};",
        "struct @head @head;",
        "nf_lookup(&@, @at, &@head);",
        "if (@head.last != @way) {",
        *_touch(cache),
        "}",
        f"{cache.value.declare('@value')};",
        "nf_lookup(&@_values, @place, &@value);",
        f"hit({values}, @value);",
    ]
    return _text(cache, lines, key=key)


def set(cache, key: str, value: str, carried: list[str]) -> str:
    """Writes in place, or where there is room, or where room can be made."""
    lines = [
        *_find(cache),
        *_choose(cache, "@head.written != @head.stored"),
        "if (@least >> 63) { busy(pkt); return; }",
        *_put(cache, dirty=True),
        f"done({', '.join(['pkt', *carried])});",
    ]
    return _text(cache, lines, key=key, value=value)


def settle(cache) -> str:
    """What the host's answer means for the cache; then the packet may leave."""
    # Write-back: the key is absent since the miss if it is not here now and nothing left the bucket in between.
    fill = "!@here && @head.written == stored"
    if not cache.back:
        fill = "true" if cache.allocates else f"@here || change == {FILL}"
    lines = [
        f"if (change == {KEEP}) {{ out(pkt); return; }}",
        *_find(cache),
        *(_learn() if cache.back else []),
        f"if ({fill}) {{",
        *_choose(cache, "0"),
        *_put(cache, dirty=False),
        "}",
        "out(pkt);",
    ]
    return _text(cache, lines, key="key", value="value")


def note(cache) -> str:
    """The host has stored so many of a bucket's entries."""
    return _text(cache, ["struct @head @head;", "nf_lookup(&@, at, &@head);", *_learn("at")])


def change(cache, key: str, value: str, what: int) -> str:
    """On the host: the answer, with what the host has stored of the key's bucket."""
    if not cache.back:
        return _text(cache, [f"out(pkt, $key, $value, {what});"], key=key, value=value)
    return _text(cache, [*_stored(cache), f"out(pkt, $key, $value, {what}, @stored);"], key=key, value=value)


def nothing(cache) -> str:
    """On the host: an answer that changes nothing."""
    lines = [f"{cache.key.declare('@key')} = {{0}};", f"{cache.value.declare('@value')} = {{0}};"]
    return _text(cache, [*lines, f"out(pkt, @key, @value, {KEEP}{', 0' if cache.back else ''});"])


def written(cache, key: str) -> str:
    """On the host: one more of the bucket's entries is stored."""
    count = ["@stored = @stored + 1;", "nf_update(&@_stored, @at, @stored);", "out(@at, @stored);"]
    return _text(cache, [*_stored(cache), *count], key=key)


def _text(cache, lines: list[str], key: str = "", value: str = "") -> str:
    text = "\n".join(lines).replace("&@_", f"&{cache.name}_").replace("&@,", f"&{cache.name},")
    text = text.replace("struct @head", f"struct {cache.name}_head").replace("@", f"{cache.name}__")
    return text.replace("$key", key).replace("$value", value)


def _bucket(cache) -> list[str]:
    return [f"uint32_t @at = nf_hash(0, $key) % {cache.buckets};"]


def _stored(cache) -> list[str]:
    return [*_bucket(cache), "uint32_t @stored;", "nf_lookup(&@_stored, @at, &@stored);"]


def _find(cache) -> list[str]:
    """The key's bucket with its head, and whether the key has a place."""
    return [
        *_bucket(cache),
        "uint32_t @place = 0;",
        "bool @here = nf_lookup(&@_index, $key, &@place);",
        "struct @head @head;",
        "nf_lookup(&@, @at, &@head);",
    ]


def _choose(cache, busy: str) -> list[str]:
    """A place for a key that has none: the one of the least number. `busy`: dirty entries cannot go now (bit 63)."""
    lines = ["uint64_t @least = 0;", "if (!@here) {", f"uint32_t @busy = {busy};"]
    for way in range(cache.ways):
        kept = f" | (uint64_t)(@head.dirty >> {way} & @busy) << 63" if cache.back and busy != "0" else ""
        number = f"(uint64_t)@head.used[{way}] << 4 | {way}{kept}"
        lines += [f"uint64_t @n{way} = {number};", f"if (@n{way} < @least) @least = @n{way};" if way else "@least = @n0;"]
    return [*lines, f"@place = @at * {cache.ways} + (uint32_t)(@least & 15);", "}"]


def _put(cache, dirty: bool) -> list[str]:
    """The key with its value goes to its place; what was there is forgotten, if it is dirty by way of the host."""
    lines = [
        f"uint32_t @way = @place % {cache.ways};",
        "if (@least >> 4) {",
        f"{cache.key.declare('@old_key')};",
        "nf_lookup(&@_keys, @place, &@old_key);",
    ]
    if cache.back:
        lines += [
            "if (@head.dirty >> @way & 1) {",
            f"{cache.value.declare('@old_value')};",
            "nf_lookup(&@_values, @place, &@old_value);",
            "@head.written = @head.written + 1;",
            "displaced(@old_key, @old_value);",
            "}",
        ]
    return [
        *lines,
        "nf_delete(&@_index, @old_key);",
        "}",
        "if (!@here) {",
        "nf_update(&@_keys, @place, $key);",
        "nf_update(&@_index, $key, @place);",
        "}",
        "nf_update(&@_values, @place, $value);",
        f"@head.dirty = @head.dirty {'| 1u << @way' if dirty else '& ~(1u << @way)'};",
        *_touch(cache),
    ]


def _touch(cache) -> list[str]:
    """A place becomes the last one used; the head is written."""
    used = [f"if (@way == {way}) @head.used[{way}] = @head.clock;" for way in range(cache.ways)]
    return ["@head.last = @way;", "@head.clock = @head.clock + 1;", *used, "nf_update(&@, @at, @head);"]


def _learn(at: str = "@at") -> list[str]:
    """A later count of what the host has stored (counts wrap)."""
    return [
        "if ((int32_t)(stored - @head.stored) > 0) {",
        "@head.stored = stored;",
        f"nf_update(&@, {at}, @head);",
        "}",
    ]
