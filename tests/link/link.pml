/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Entries of a queue between NIC and host (runtime/host/nf_link.h) for the model checker SPIN: a far producer whose DMA engine moves the two lines of
 * an entry in any order and any time later, and a near consumer that may die between any two steps and begins again with what
 * the entries say. Two entries, MOST messages.
 *
 * Checked: messages come in order, each once at most; what does not come is counted as lost, and was taken by a consumer that died;
 * at the end all have come or are counted, and nobody is stuck.
 */
#define COUNT 2
#define MOST 5
#define DEATHS 2

#define FREE 0
#define FULL 1
#define TAKEN 2
#define TURN(at, state) (((at) / COUNT) * 4 + (state))

/* Turns and payload of both lines of each entry in the host's memory. */
byte turn1[COUNT], turn2[COUNT], data1[COUNT], data2[COUNT];
/* The same in the producer's copy, and the commands that the engine has: lines that are still to be moved. */
byte copy_turn[COUNT], copy_data[COUNT];
bool moves1[COUNT], moves2[COUNT];
/* Entries that the consumer has freed, as it says, and as the producer knows. */
byte done, credits;

byte sent, handled, lost, deaths;
/* The last message that was handled, or was lost; what was being handled when a consumer died may count as both. */
byte last;
bool over;

proctype producer()
{
    do
    :: sent == MOST -> break
    :: sent < MOST && sent - credits < COUNT ->
        atomic {
            assert(!moves1[sent % COUNT] && !moves2[sent % COUNT]);
            copy_turn[sent % COUNT] = TURN(sent, FULL);
            copy_data[sent % COUNT] = sent + 1;
            moves1[sent % COUNT] = true;
            moves2[sent % COUNT] = true;
            sent++
        }
    :: sent < MOST && credits != done -> credits = done
    od
}

proctype engine()
{
    byte i;
    do
    :: over -> break
    :: atomic { moves1[0] -> turn1[0] = copy_turn[0]; data1[0] = copy_data[0]; moves1[0] = false }
    :: atomic { moves2[0] -> turn2[0] = copy_turn[0]; data2[0] = copy_data[0]; moves2[0] = false }
    :: atomic { moves1[1] -> turn1[1] = copy_turn[1]; data1[1] = copy_data[1]; moves1[1] = false }
    :: atomic { moves2[1] -> turn2[1] = copy_turn[1]; data2[1] = copy_data[1]; moves2[1] = false }
    od
}

proctype consumer()
{
    byte at, i, first, second;
begin:
    /* nf_link_attach: one entry after the other, while the engine goes on. */
    at = 0;
    i = 0;
    do
    :: i < COUNT ->
        if
        :: turn1[i] % 4 == TAKEN ->
            atomic { lost++; turn1[i] = (turn1[i] / 4) * 4 + 4 }
        :: else
        fi;
        at = at + turn1[i] / 4;
        i++
    :: else -> break
    od;
    done = at;
    do
    :: over -> goto end
    :: turn1[at % COUNT] == TURN(at, FULL) && turn2[at % COUNT] == TURN(at, FULL) ->
        if
        :: true ->
            /* nf_link_take and nf_link_release: who has it does something with it. */
            turn1[at % COUNT] = TURN(at, TAKEN);
            if
            :: deaths < DEATHS -> deaths++; goto begin
            :: true
            fi;
            first = data1[at % COUNT];
            second = data2[at % COUNT];
            assert(first == second);
            assert(first == at + 1);
            assert(first > last);
            atomic { last = first; handled++ };
            if
            :: deaths < DEATHS -> deaths++; goto begin
            :: true
            fi;
            turn1[at % COUNT] = TURN(at + COUNT, FREE)
        :: true ->
            /* nf_link_get: a copy that nobody had until the entry is free. */
            first = data1[at % COUNT];
            second = data2[at % COUNT];
            assert(first == second);
            assert(first == at + 1);
            assert(first > last);
            if
            :: deaths < DEATHS -> deaths++; goto begin
            :: true
            fi;
            atomic { turn1[at % COUNT] = TURN(at + COUNT, FREE); last = first; handled++ }
        fi;
        if
        :: deaths < DEATHS -> deaths++; goto begin
        :: true
        fi;
        at++;
        done = at;
        assert(handled <= sent && handled + lost <= sent + deaths);
        if
        :: at == MOST -> over = true
        :: else
        fi
    :: at == MOST -> over = true
    od;
end:
    assert(handled + lost >= MOST && lost <= deaths)
}

init
{
    atomic {
        run producer();
        run engine();
        run consumer()
    }
}
