/* SPDX-License-Identifier: 0BSD
 *
 * native.h - runs the handler AK_HANDLER of the program above for every frame on the standard input
 * (length and bytes) and ends what leaves with a letter.
 */
#undef main

int main(void)
{
    static struct buf_tag packet;
    struct buf_tag *const address = &packet;
    while (fread(&packet.length, sizeof packet.length, 1, stdin) == 1) {
        packet.emitted = packet.read = 0;
        if (packet.length > AK_ROOM ||
            fread(packet.frame, 1, packet.length, stdin) != packet.length)
            return 1;
        buf_t argument;
        memset(&argument, 0, sizeof argument);
        memcpy(&argument, &address, sizeof address);
        AK_HANDLER(argument);
        ak_leave('.', 0, NULL, 0);
    }
    return 0;
}
