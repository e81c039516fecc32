/* SPDX-License-Identifier: 0BSD
 *
 * A clock for reports.py: attaches to a run and sends a tick every 100 us, so that batches leave
 * without traffic.
 *
 *     python3 reports.py build --emit host -o build && gcc -O2 -Ibuild clock.c -o clock && ./clock
 * run.sock */
#include <stdio.h>
#include <unistd.h>

#include "reports_host.h"

int main(int count, char **words)
{
    struct nf_attach run;
    if (count != 2 || reports_attach(&run, words[1])) {
        fprintf(stderr, "usage: clock SOCKET, of a run that listens there (--host-socket)\n");
        return 1;
    }
    /* A full queue takes the tick next time; any other error is the run's end. */
    for (struct reports_tick tick = {0};; tick.number++) {
        int error = reports_send(&run, &tick);
        if (error && error != -EAGAIN)
            return 0;
        usleep(100);
    }
}
