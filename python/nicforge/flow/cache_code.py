"""What a cache's elements do, in C. `cache.py` says why.

In these texts `@` stands for the cache's name, with which all names begin, so that they meet none
of those the user carries along; `$key` and `$value` for what the user wrote. `used` is the bucket's
clock when a place was used last; `tag` the hash of the key there, with a lowest bit that free
places, whose tag is 0, do not have. The clock wraps: what was used longest ago is told by
differences to it, so that only a place that was left alone for 2^32 uses of others looks younger
than it is, and makes room a little later than it should. No two places of a bucket have the same
tag: a key whose tag another key has takes the place of that one. So a key is in one place or
nowhere, and one comparison tells.

A bucket's place is the remainder by `ways`, and its number comes from the hash everywhere: so the
planner sees that two requests that meet in a table have the same bucket, and can give the buckets
to several cores.

What the kernel's verifier has to follow decides the form: keys and values are in tables of their
own and not copied together, since BPF has 512 bytes of stack; which place is the key's, or makes
room, is the least of one number a place (whether the tag is another one, whether it may not go now,
whether it is taken, its use, the place), since a way through a chain of conditions for each would
be walked each time.
"""

from __future__ import annotations

KEEP, FILL, UPDATE = 0, 1, 2


def get(cache, key: str, carried: list[str]) -> str:
    """Hit or miss; a hit makes its place the last one used."""
    values = ", ".join(["pkt", *carried])
    lines = [
        *_find(cache),
        f"if (!@here) {{ miss({values}); return; }}",
        "if (@head.last != @way) {",
        "uint32_t @clock = @head.clock + 1;",
        *_touch(cache),
        "}",
        f"{cache.value.declare('@value')};",
        "nf_lookup(&@_values, @place, &@value);",
        f"hit({values}, @value);",
    ]
    return _text(cache, lines, key=key)


def set(cache, key: str, value: str, carried: list[str]) -> str:
    """Writes in place, or where there is room, or where room can be made."""
    values = ", ".join(["pkt", *carried])
    lines = [
        *_find(cache, busy="@head.written != @head.stored"),
        *_was(),
        f"if (!@here && (@least >> 62 & 1) != 0) {{ busy({values}); return; }}",
        *_put(cache, dirty=True),
        f"done({values});",
    ]
    return _text(cache, lines, key=key, value=value)


def settle(cache) -> str:
    """What the host's answer means for the cache; then the packet may leave."""
    # Write-back: the key is absent since the miss if it is not here now and nothing left the bucket
    # in between. A clean entry came with an earlier answer of the host.
    fill = "@here ? (@was >> @way & 1) == 0 : @written == stored"
    if not cache.back:
        fill = "true" if cache.allocates else f"@here || change == {FILL}"
    lines = [
        f"if (change == {KEEP}) {{ out(pkt); return; }}",
        *_find(cache),
        *_was(),
        *(_learn() if cache.back else []),
        f"if ({fill}) {{",
        *_put(cache, dirty=False),
        "}",
        "out(pkt);",
    ]
    return _text(cache, lines, key="key", value="value")


def note(cache) -> str:
    """The host has stored so many of a bucket's entries."""
    lines = [
        f"uint32_t @at = at % {cache.buckets};",
        "struct @head @head;",
        "nf_lookup(&@, @at, &@head);",
    ]
    return _text(cache, [*lines, *_learn()])


def change(cache, key: str, value: str, what: int) -> str:
    """On the host: the answer, with what the host has stored of the key's bucket."""
    if not cache.back:
        return _text(cache, [f"out(pkt, $key, $value, {what});"], key=key, value=value)
    return _text(
        cache, [*_stored(cache), f"out(pkt, $key, $value, {what}, @stored);"], key=key, value=value
    )


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


def _stored(cache) -> list[str]:
    bucket = f"uint32_t @at = nf_hash(0, $key) % {cache.buckets};"
    return [bucket, "uint32_t @stored;", "nf_lookup(&@_stored, @at, &@stored);"]


def _find(cache, busy: str = "") -> list[str]:
    """The key's bucket with its head, the place that it has or would get, and whether it is there.

    `busy`: when dirty entries cannot go now. The place is that of the least number: bit 63, another
    tag; bit 62, cannot go; bit 36, taken; the use, by how long ago; the place.
    """
    lines = [
        "uint32_t @hash = nf_hash(0, $key);",
        f"uint32_t @at = @hash % {cache.buckets}, @tag = @hash | 1;",
        "struct @head @head;",
        "nf_lookup(&@, @at, &@head);",
    ]
    if busy:
        lines.append(f"uint32_t @busy = {busy};")
    lines.append("uint64_t @least = ~0ull, @number;")
    for way in range(cache.ways):
        other = f"((uint64_t)(@head.tag[{way}] ^ @tag) + 0xffffffff) >> 32 << 63"
        kept = f" | (uint64_t)(@head.dirty >> {way} & @busy) << 62" if busy else ""
        taken = f"((uint64_t)@head.tag[{way}] + 0xffffffff) >> 32 << 36"
        use = f"(uint64_t)(@head.used[{way}] - @head.clock - 1) << 4"
        # One after the other, so that they need not all be kept in a kernel's little stack.
        number = f"@number = {other}{kept} | {taken} | {use} | {way};"
        lines += [number, "if (@number < @least) @least = @number;"]
    return [
        *lines,
        f"uint32_t @way = (uint32_t)(@least & 15) % {cache.ways}, @place = @at * {cache.ways} + @way;",
        "bool @here = false;",
        "if (@least >> 63 == 0) {",
        f"{cache.key.declare('@known')};",
        "nf_lookup(&@_keys, @place, &@known);",
        "uint64_t @differs = 0;",
        *cache.key.differ("@differs", "@known", "$key"),
        "@here = @differs == 0;",
        "}",
    ]


def _was() -> list[str]:
    """What is read of the head before it changes: looking later would make two heads of it in a
    kernel's little stack."""
    return ["uint32_t @written = @head.written, @was = @head.dirty, @clock = @head.clock + 1;"]


def _put(cache, dirty: bool) -> list[str]:
    """The key with its value goes to its place; what was there is forgotten, if it is dirty by way
    of the host."""
    lines = ["if (!@here) {"]
    if cache.back:
        lines += [
            "if (@was >> @way & 1) {",
            f"{cache.key.declare('@old_key')};",
            "nf_lookup(&@_keys, @place, &@old_key);",
            f"{cache.value.declare('@old_value')};",
            "nf_lookup(&@_values, @place, &@old_value);",
            "@written = @written + 1;",
            "displaced(@old_key, @old_value);",
            "}",
        ]
    dirty = f"@was {'| 1u << @way' if dirty else '& ~(1u << @way)'}"
    also = (
        f"uint32_t @dirty = {dirty};",
        "@head.dirty = @dirty;",
        *(("@head.written = @written;",) if cache.back else ()),
        *(f"if (@way == {way}) @head.tag[{way}] = @tag;" for way in range(cache.ways)),
    )
    return [
        *lines,
        "nf_update(&@_keys, @place, $key);",
        "}",
        "nf_update(&@_values, @place, $value);",
        *_touch(cache, also),
    ]


def _touch(cache, also: tuple = ()) -> list[str]:
    """A place becomes the last one used; the head is written. `also`: what else changes in it."""
    lines = [*also, "@head.last = @way;", "@head.clock = @clock;"]
    used = [f"if (@way == {way}) @head.used[{way}] = @clock;" for way in range(cache.ways)]
    return [*lines, *used, "nf_update(&@, @at, @head);"]


def _learn() -> list[str]:
    """A later count of what the host has stored (counts wrap)."""
    return [
        "if ((int32_t)(stored - @head.stored) > 0) {",
        "@head.stored = stored;",
        "nf_update(&@, @at, @head);",
        "}",
    ]
