/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Tables of a simulated design, through its registers alone.
 *
 * An entry in a file or a request: number of the table, detail (prefix length or priority), length
 * of the byte string (kNone: it stays as it is) and 0, four bytes each; then key, mask, value and
 * byte string.
 */
#ifndef NF_TABLES_H
#define NF_TABLES_H

#include <csignal>

#include "nf_design.h"

const uint32_t kNone = ~0u;

class Tables
{
  public:
    Tables(Design &design, const std::vector<Table> &tables) : design(design), tables(tables) {}

    /* Puts in all entries of a file. */
    void fill(const std::vector<uint8_t> &file)
    {
        Reader in(file);
        while (in.more()) {
            Entry entry = take(in);
            if (!put(entry))
                fail("table " + std::to_string(entry.number) +
                     " refused an entry it is filled with");
        }
    }

    /* Everything in all tables; of arrays what is not zero. */
    void dump(Writer &out)
    {
        for (uint32_t number = 0; number < tables.size(); number++)
            dump(out, number);
    }

    /* One more look at some table, as a host has it while packets go through; nothing may come of
     * it. */
    void look(Random &random)
    {
        if (tables.empty())
            return;
        uint32_t number = random.next() % tables.size();
        const Table &table = tables[number];
        bool strings = table.extra && random.next() % 2;
        design.write(0x1c, strings ? random.next() % (table.capacity * table.lines) : 0);
        uint32_t key = table.kind == NF_ARRAY ? random.next() % table.capacity : random.next();
        design.write(0x400, key);
        design.write(0x20, table.kind == NF_LPM ? random.next() % (8 * table.key + 1) : 0);
        design.command(number, strings ? READ_BYTES : PEEK);
    }

    /* Answers requests from standard input until it ends. A request is a number (1 update, 2
     * delete, 5 look up, 6 list) and an entry; the answer is whether it was done, the size of what
     * follows, and entries. */
    void serve()
    {
        /* Ctrl-C is for the process that asks, which ends this one. */
        signal(SIGINT, SIG_IGN);
        answer(true, {});
        uint8_t head[20];
        while (fread(head, 1, sizeof(head), stdin) == sizeof(head)) {
            uint32_t op, number, buf;
            memcpy(&op, head, 4);
            memcpy(&number, head + 4, 4);
            memcpy(&buf, head + 12, 4);
            const Table &table = tables.at(number);
            std::vector<uint8_t> request(head + 4, head + 20);
            size_t size = 2 * table.key + table.value + (buf == kNone ? 0 : buf);
            request.resize(16 + size);
            if (fread(request.data() + 16, 1, size, stdin) != size)
                return;
            Reader in(request);
            Entry entry = take(in);
            Writer out;
            bool ok = true;
            switch (op) {
            case UPDATE:
                ok = put(entry);
                break;
            case DELETE:
                address(entry);
                ok = design.command(number, DELETE);
                break;
            case PEEK:
                address(entry);
                ok = design.command(number, PEEK);
                if (ok)
                    read(out, number, design.read(0x1c), &entry);
                break;
            case NEXT:
                dump(out, number);
                break;
            default:
                fail("an unknown request");
            }
            answer(ok, out);
        }
    }

  private:
    struct Entry {
        uint32_t number, detail, buf;
        const uint8_t *key, *mask, *value, *bytes;
    };

    Entry take(Reader &in)
    {
        Entry entry;
        entry.number = in.u32();
        entry.detail = in.u32();
        entry.buf = in.u32();
        in.u32();
        const Table &table = tables.at(entry.number);
        entry.key = in.take(table.key);
        entry.mask = in.take(table.key);
        entry.value = in.take(table.value);
        entry.bytes = in.take(entry.buf == kNone ? 0 : entry.buf);
        return entry;
    }

    void address(const Entry &entry)
    {
        const Table &table = tables[entry.number];
        design.write(0x20, entry.detail);
        design.write_bytes(0x400, entry.key, table.key);
        design.write_bytes(0x800, entry.mask, table.key);
    }

    bool put(const Entry &entry)
    {
        const Table &table = tables[entry.number];
        address(entry);
        std::vector<uint8_t> value(entry.value, entry.value + table.value);
        value.resize(table.value + table.extra);
        design.write_bytes(0x1000, value.data(), value.size());
        if (!design.command(entry.number, UPDATE))
            return false;
        if (!table.extra || entry.buf == kNone)
            return true;
        uint32_t index = design.read(0x1c);
        memcpy(value.data() + table.value, &entry.buf, 4);
        design.write_bytes(0x1000, value.data(), value.size());
        design.write(0x1c, index);
        design.command(entry.number, WRITE);
        for (uint32_t at = 0; at < entry.buf; at += 64) {
            design.write_bytes(0x1000, entry.bytes + at, entry.buf - at < 64 ? entry.buf - at : 64);
            design.write(0x1c, index * table.lines + at / 64);
            design.command(entry.number, WRITE_BYTES);
        }
        return true;
    }

    /* The entry whose value the registers hold. What identifies it is in them too after NEXT, else
     * in `asked`. */
    void read(Writer &out, uint32_t number, uint32_t index, const Entry *asked)
    {
        const Table &table = tables[number];
        std::vector<uint8_t> key(table.key), mask(table.key), value(table.value + table.extra);
        design.read_bytes(0x1000, value.data(), value.size());
        uint32_t length = 0, detail = 0;
        if (table.extra)
            memcpy(&length, value.data() + table.value, 4);
        bool zero = length == 0;
        for (uint32_t i = 0; i < table.value; i++)
            zero = zero && value[i] == 0;
        if (asked) {
            detail = asked->detail;
            key.assign(asked->key, asked->key + table.key);
            mask.assign(asked->mask, asked->mask + table.key);
        } else if (table.kind == NF_ARRAY && zero) {
            return;
        } else {
            design.read_bytes(0x400, key.data(), table.key);
            if (table.kind == NF_LPM || table.kind == NF_TERNARY)
                detail = design.read(0x20);
            if (table.kind == NF_TERNARY)
                design.read_bytes(0x800, mask.data(), table.key);
        }
        out.u32(number);
        out.u32(detail);
        out.u32(length);
        out.u32(0);
        out.raw(key.data(), key.size());
        out.raw(mask.data(), mask.size());
        out.raw(value.data(), table.value);
        for (uint32_t at = 0; at < length; at += 64) {
            uint8_t line[64];
            design.write(0x1c, index * table.lines + at / 64);
            design.command(number, READ_BYTES);
            design.read_bytes(0x1000, line, 64);
            out.raw(line, length - at < 64 ? length - at : 64);
        }
    }

    void dump(Writer &out, uint32_t number)
    {
        for (uint32_t index = 0;; index++) {
            design.write(0x1c, index);
            if (!design.command(number, NEXT))
                break;
            index = design.read(0x1c);
            read(out, number, index, nullptr);
        }
    }

    void answer(bool ok, const Writer &out)
    {
        Writer head;
        head.u32(ok);
        head.u32((uint32_t)out.bytes.size());
        head.raw(out.bytes.data(), out.bytes.size());
        fwrite(head.bytes.data(), 1, head.bytes.size(), stdout);
        fflush(stdout);
    }

    Design &design;
    const std::vector<Table> &tables;
};

#endif
