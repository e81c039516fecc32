// Sends a file as one SLMP message.
//
//   ./slmp_send -s 10.9.0.2 -f FILE [-w WINDOW] [-t THREADS] [-i GAP_US] [-n TIMES]
//
// Three ways: a window (at most so many packets unacknowledged, what is lost is sent again), no
// window (-w 0: only first and last packet are acknowledged), and no window with a gap between
// packets (-w 0 -i US), for receivers that are slower than the line.
#include "fpspin/fpspin.h"

#include <string.h>
#include <time.h>
#include <unistd.h>

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

int main(int argc, char **argv)
{
    const char *server = NULL, *path = NULL;
    int window = 16, threads = 1, gap = 0, times = 1, letter, failed = 0;

    while ((letter = getopt(argc, argv, "s:f:w:t:i:n:")) != -1) {
        switch (letter) {
        case 's':
            server = optarg;
            break;
        case 'f':
            path = optarg;
            break;
        case 'w':
            window = atoi(optarg);
            break;
        case 't':
            threads = atoi(optarg);
            break;
        case 'i':
            gap = atoi(optarg);
            break;
        case 'n':
            times = atoi(optarg);
            break;
        default:
            server = NULL;
            path = NULL;
        }
    }
    if (!server || !path) {
        fprintf(stderr,
                "usage: %s -s SERVER -f FILE [-w WINDOW] [-t THREADS] [-i GAP_US] [-n TIMES]\n",
                argv[0]);
        return 2;
    }
    FILE *file = fopen(path, "rb");
    if (!file || fseek(file, 0, SEEK_END) != 0) {
        perror(path);
        return 1;
    }
    long size = ftell(file);
    char *data = malloc((size_t)size + 1);
    rewind(file);
    if (!data || fread(data, 1, (size_t)size, file) != (size_t)size) {
        perror(path);
        return 1;
    }
    fclose(file);

    slmp_sock_t sock;
    if (slmp_socket(&sock, window, DMA_ALIGN, gap, threads) != 0)
        return 2;
    // Numbers count up from anywhere, so that receivers can tell a message from the one before it.
    srand((unsigned)getpid());
    int message = rand() & 0xffffff;
    for (int at = 0; at < times; at++) {
        double began = seconds();
        int result = slmp_sendmsg(&sock, inet_addr(server), message + at, data, (size_t)size);
        double took = seconds() - began;
        printf("Elapsed: %f\n", took);
        if (result != 0)
            failed++;
        else
            printf("%.3f Mbit/s\n", (double)size * 8e-6 / took);
    }
    slmp_close(&sock);
    free(data);
    if (failed > 0)
        fprintf(stderr, "%d of %d transfers failed\n", failed, times);
    return failed > 0;
}
