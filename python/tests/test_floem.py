"""Modules in the language of Floem: docs/floem.md. What they print is what they say they expect."""

import os
import pathlib
import subprocess
import sys
import textwrap

import pytest
from nicforge.flow.tool import find

ROOT = pathlib.Path(__file__).resolve().parents[2]


def floem(command, *paths):
    words = [sys.executable, "-m", "nicforge.floem", command, *map(str, paths)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "python")}
    return subprocess.run(words, capture_output=True, text=True, env=environment, timeout=600)


def module(folder, text, name="module.py"):
    path = folder / name
    path.write_text(textwrap.dedent(text))
    return path


def verdict(folder, text, command="survey"):
    ran = floem(command, module(folder, text))
    assert ran.stdout.strip(), ran.stderr
    return ran.stdout.splitlines()[0].partition(": ")[2]


JOIN = """
    from floem import *

    class Weigh(Element):
        def configure(self):
            self.left, self.right = Input(Int), Input(Int)
            self.out = Output(Int)
        def impl(self):
            self.run_c("int l = left(); (int r) = right(); output { out(l * 10 + r); }")

    class weigh(CallableSegment):
        def configure(self):
            self.one, self.other, self.out = Input(Int), Input(Int), Output(Int)
        def args_order(self):
            return [self.other, self.one]
        def impl(self):
            both = Weigh()
            self.one >> Inc(configure=[Int]) >> both.left
            self.other >> both.right
            both >> self.out

    weigh("weigh")
    c = Compiler()
    c.testing = "int first = weigh(1, 2); out(first); out(weigh(first, 4));"
    c.generate_code_and_run([31, 81])
"""


def test_functions_join_and_depend_on_each_other(tmp_path):
    assert verdict(tmp_path, JOIN) == "right"


def test_what_is_not_expected_is_wrong(tmp_path):
    assert (
        verdict(tmp_path, JOIN.replace("[31, 81]", "[31, 82]"))
        == "wrong: printed 31 81, expected 31 82"
    )


def test_words_of_python_2_are_converted(tmp_path):
    text = JOIN + '    print "made", map(lambda (a, b): a + b, [(1, 2)])\n'
    said = floem("survey", module(tmp_path, text)).stdout.splitlines()
    assert said[0].startswith("made ") and said[1].endswith(": right"), said


STATE = """
    from floem import *

    class Item(State):
        number = Field(Int)
        kind = Field(Uint(8))

    class Total(State):
        sum = Field(Int)
        def init(self, sum=0):
            self.sum = sum

    class Keep(Element):
        def configure(self):
            self.inp, self.out = Input(Int), Output()
        def impl(self):
            self.run_c('''
                state.number = inp(); // output { "no" }
                state->kind = state.number > 5 ? 1 : 0;
                output { out(); }
            ''')

    class Sort(Element):
        def configure(self):
            self.inp, self.out = Input(), [Output(), Output(Int)]
        def impl(self):
            self.run_c("output switch { case (state.kind == 1): out0(); else: out1(state.number); }")

    class Say(Element):
        total = Persistent(Total)
        def configure(self, word):
            self.inp, self.word = Input(), word
        def states(self, total):
            self.total = total
        def impl(self):
            self.run_c(r'total->sum += state.number; printf("%s: {%%d} //\\n", total->sum);' % self.word)

    class main(Flow):
        state = PerPacket(Item)
        class take(CallableSegment):
            def configure(self):
                self.inp = Input(Int)
            def impl(self):
                sort, total = Sort(), Total(init=[100])
                self.inp >> Keep() >> sort
                sort.out[0] >> Say(configure=["large"], states=[total])
                sort.out[1] >> Say(configure=["small"], states=[total])
        def impl(self):
            main.take("take")

    c = Compiler(main)
    c.testing = "take(3); take(9); take(4);"
    c.generate_code_and_run(["small:", "{103}", "//", "large:", "{112}", "//", "small:", "{116}", "//"])
"""


def test_states_switches_and_memory(tmp_path):
    assert verdict(tmp_path, STATE) == "right"


def test_composites_have_two_graphs(tmp_path):
    text = """
        from floem import *

        class Twice(Composite):
            def configure(self):
                self.inp, self.out = Input(Int), Output(Int)
            def spec(self):
                self.inp >> Inc(configure=[Int]) >> self.out
            def impl(self):
                self.inp >> Inc(configure=[Int]) >> Inc(configure=[Int]) >> self.out

        start, twice = Identity(configure=[Int]), Twice()
        start >> twice
        APIThread("run", [Int], Int).run(start, twice)
        assert (len(twice.collection.spec), len(twice.collection.impl)) == (1, 2)
        c = Compiler()
        c.testing = "for (int i = 0; i < 3; i++) out(run(i));"
        for mode, expected in (("spec", [1, 2, 3]), ("impl", [2, 3, 4])):
            c.desugar_mode = mode
            c.generate_code_and_run(expected)
    """
    assert verdict(tmp_path, text) == "right"


def test_queues_are_polled_and_cleaned(tmp_path):
    text = """
        from floem import *

        class Item(State):
            number, qid = Field(Int), Field(Int)

        class Keep(Element):
            def configure(self):
                self.inp, self.out = Input(Int), Output()
            def impl(self):
                self.run_c("state.number = inp(); state.qid = state.number & 1; output { out(); }")

        class Say(ElementOneInOut):
            def configure(self, word):
                self.inp, self.word = Input(), word
            def impl(self):
                self.run_c(r'printf("' + self.word + r'%d\\n", state.number);')

        Put, Take, Clean = queue_smart.smart_queue("line", 32, 2, 2, 1, clean=True, enq_output=True)

        class main(Flow):
            state = PerPacket(Item)
            def impl(self):
                class put(CallableSegment):
                    def configure(self):
                        self.inp = Input(Int)
                    def impl(self):
                        put = Put()
                        self.inp >> Keep() >> put.inp[0]
                        put.done >> Say(configure=["put"])
                        Clean() >> Say(configure=["clean"])
                class take(CallableSegment):
                    def configure(self):
                        self.inp = Input(Int)
                    def impl(self):
                        self.inp >> Take() >> Say(configure=["got"])
                put("put")
                take("take")

        c = Compiler(main)
        c.testing = "put(2); put(4); put(3); take(0); take(1); take(1); take(0); put(6); take(0);"
        c.generate_code_and_run("put2 put4 put3 got2 got3 got4 clean2 clean4 put6 got6".split())
    """
    assert verdict(tmp_path, text) == "right"


CACHE = """
    from floem import *

    GetStart, GetEnd, SetStart, SetEnd, CacheState = cache_smart.smart_cache_with_state(
        "near", (Int, "key"), [(Int, "value")], write_policy=Cache.POLICY, write_miss=Cache.write_alloc)

    class Item(CacheState):
        key, value = Field(Int), Field(Int)

    class Keep(Element):
        def configure(self, *types):
            self.inp, self.out = Input(*types), Output()
        def impl(self):
            many = len(self.inp.types) == 2
            read = "(int k, int v) = inp(); state->value = v;" if many else "int k = inp();"
            self.run_c(read + " state->key = k; output { out(); }")

    class Far(ElementOneInOut):
        def configure(self, c):
            ElementOneInOut.configure(self)
            self.c = c
        def impl(self):
            self.run_c(self.c + " output { out(); }")

    class Give(Element):
        def configure(self):
            self.inp, self.out = Input(), Output(Int)
        def impl(self):
            self.run_c("output { out(state.value); }")

    class main(Flow):
        state = PerPacket(Item)
        def impl(self):
            class get(CallableSegment):
                def configure(self):
                    self.inp, self.out = Input(Int), Output(Int)
                def impl(self):
                    far = Far(configure=[r'printf("far\\n"); state->value = state->key + 1;'])
                    self.inp >> Keep(configure=[Int]) >> GetStart() >> far >> GetEnd() >> Give() >> self.out
            class set(CallableSegment):
                def configure(self):
                    self.inp = Input(Int, Int)
                def impl(self):
                    far = Far(configure=[r'printf("stored\\n");'])
                    self.inp >> Keep(configure=[Int, Int]) >> SetStart() >> far >> SetEnd() >> library.Drop()
            get("get")
            set("set")

    c = Compiler(main)
    c.testing = "out(get(1)); out(get(1)); set(1, 7); out(get(1)); set(2, 9); out(get(2));"
    c.generate_code_and_run(EXPECTED)
"""


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ("write_back", ["far", 2, 2, 7, 9]),
        ("write_through", ["far", 2, 2, "stored", 7, "stored", 9]),
    ],
)
def test_caches_answer_what_they_hold(tmp_path, policy, expected):
    assert (
        verdict(tmp_path, CACHE.replace("POLICY", policy).replace("EXPECTED", str(expected)))
        == "right"
    )


def test_a_c_program_calls_it(tmp_path):
    (tmp_path / "app.c").write_text(
        '#include "adder.h"\nint main(int n, char *argv[]) { init(argv); run_threads(); printf("%d\\n", add(40)); }\n'
    )
    text = """
        from floem import *
        class add(CallableSegment):
            def configure(self):
                self.inp, self.out = Input(Int), Output(Int)
            def impl(self):
                self.inp >> Inc(configure=[Int]) >> Inc(configure=[Int]) >> self.out
        add("add")
        c = Compiler()
        c.generate_code_as_header("adder")
        c.compile_and_run("app")
    """
    assert floem("run", module(tmp_path, text)).stdout.split("\n")[0] == "42"


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("undefined", "NameError: name 'undefined' is not defined"),
        ("create_probe('p', Int, 2, 'f')", "create_probe"),
    ],
)
def test_what_is_missing_is_said(tmp_path, line, reason):
    text = f"from floem import *\nf = Identity(configure=[Int])\n{line}\nAPIThread('run', [Int], Int).run(f)\n"
    said = verdict(
        tmp_path,
        text + "c = Compiler()\nc.testing = 'run(1);'\nc.generate_code_and_run()\n",
        "check",
    )
    assert said.startswith("not accepted: " + reason), said


def test_the_command_takes_modules(tmp_path):
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "python")}
    for command, text, said in (
        ("check", JOIN, "module.py: accepted"),
        ("run", JOIN, "31 81"),
        ("run", "x", "NameError"),
    ):
        words = [find(), command, module(tmp_path, text)]
        ran = subprocess.run(words, capture_output=True, text=True, env=environment, timeout=600)
        assert said in ran.stdout and (ran.returncode == 0) == (text is JOIN), ran


def test_functions_take_values_that_threads_give(tmp_path):
    text = """
        from floem import *
        squares, ones = create_inject("squares", "int", 10, "square")(), create_inject("ones", "int", 10, "one")()
        add = Add(configure=[Int])
        squares >> add.inp1
        ones >> add.inp2
        APIThread("next", [], "int").run(add)
        for thread, giver in (("first", squares), ("second", ones)):
            InternalThread(thread).run(giver)
        c = Compiler()
        c.include = "int square(int i) { return i * i; }\\nint one(int i) { return 1; }"
        c.testing = "for (int i = 0; i < 4; i++) out(next());"
        c.generate_code_and_run([1, 2, 5, 10])
    """
    assert verdict(tmp_path, text) == "right"


def test_modules_are_planned(tmp_path):
    words = [
        sys.executable,
        "-m",
        "nicforge.floem",
        "plan",
        module(tmp_path, JOIN),
        "--target",
        "dpdk",
    ]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "python")}
    ran = subprocess.run(words, capture_output=True, text=True, env=environment, timeout=600)
    assert "module on dpdk: " in ran.stdout and ran.returncode == 0, ran
    words[-1] = "xdp"
    ran = subprocess.run(words, capture_output=True, text=True, env=environment, timeout=600)
    assert "xdp lacks functions of C" in ran.stdout and ran.returncode == 1, ran
