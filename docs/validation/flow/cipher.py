"""Payloads encrypted on the NIC or on the host: what `nicforge validate flow` compares.

    python3 cipher.py nic|host               # prints the C

Of a frame's payload, 976 bytes are encrypted by AES-128-CBC, and the frame goes back; the published
program does it to frames of 1,024 bytes.
"""

import sys

from nicforge.flow import Drop, Element, FromNet, In, Out, Program, Queue, ToNet, packet, u32


class Encrypt(Element):
    inp = In(pkt=packet)
    out = Out(packet, u32)
    short = Out(packet)
    body = """
        struct nf_eth eth;
        uint8_t key[16] = {1}, iv[16] = {2};
        if (!nf_extract(pkt, &eth) || !nf_strip(pkt, 33) || nf_len(pkt) < 976) {
            short(pkt);
            return;
        }
        nf_aes_cbc_encrypt(pkt, 976, &key, &iv);
        nf_reset(pkt);
        out(pkt, nf_port(pkt));
    """


def program(side: str) -> Program:
    network, encrypt = FromNet(), Encrypt()
    if side == "host":
        network >> Queue("up", side="host", ordered=False) >> encrypt
    else:
        network >> encrypt
    encrypt.short >> Drop("no payload to encrypt")
    encrypt.out >> ToNet()
    return Program("cipher", network, ports=2)


if __name__ == "__main__":
    print(program(sys.argv[1]).source().text, end="")
