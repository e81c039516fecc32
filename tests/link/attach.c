/* A program that attaches as the host side (runtime/host/nf_attach.h) and answers every message by
 * the next number.
 *
 *     attach PATH MOST    ends after MOST messages, without a word to anybody; says what it
 * received
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

#include "nf_attach.h"

struct number {
    uint64_t value;
};

int main(int argc, char **argv)
{
    struct nf_attach run;
    int status = argc == 3 ? nf_attach(&run, argv[1], sizeof(struct number), sizeof(struct number))
                           : -EINVAL;
    if (status) {
        printf("refused: %s\n", strerror(-status));
        return 1;
    }
    printf("attached\n");
    fflush(stdout);
    uint64_t sum = 0, packets = 0, count = 0;
    for (uint64_t most = strtoull(argv[2], NULL, 10); count < most;) {
        enum nf_attach_kind kind;
        uint8_t bytes[2048];
        int got = nf_attach_receive(&run, &kind, bytes, sizeof(bytes));
        if (got == -EPIPE)
            break;
        if (got == -EAGAIN) {
            struct pollfd fd = {nf_attach_fd(&run), POLLIN, 0};
            poll(&fd, 1, -1);
            continue;
        }
        count++;
        if (kind == NF_ATTACH_PACKET) {
            packets++;
            continue;
        }
        struct number number;
        memcpy(&number, bytes, sizeof(number));
        sum += number.value++;
        while (nf_attach_send(&run, &number, sizeof(number)) == -EAGAIN)
            poll(NULL, 0, 1);
    }
    printf("%llu messages and packets, %llu packets, sum %llu\n", (unsigned long long)count,
           (unsigned long long)packets, (unsigned long long)sum);
    return 0;
}
