"""Which bindings reach a use."""

from __future__ import annotations

from transforms.binding import reaching


def test_a_condition_that_cuda_decides_is_straight_code() -> None:
    code = """
        import torch
        if torch.cuda.is_available():
            x = 1
        else:
            x = 2
        print(x)
        """
    assert reaching(code, 2) == {"1"}
    code = """
        import torch
        x = 1
        if not torch.cuda.is_available():
            x = 2
        print(x)
        """
    assert reaching(code, 2) == {"1"}


def test_a_way_that_returns_does_not_go_on() -> None:
    code = """
        def f(a):
            x = 1
            if a:
                x = 2
                return x
            return x
        """
    assert reaching(code, 3) == {"1"}


def test_a_loop_may_run_no_time_or_several() -> None:
    code = """
        x = 0
        for i in y:
            print(x)
            x = 1
        print(x)
        """
    assert reaching(code, 1) == {"0", "1"}
    assert reaching(code, 3) == {"0", "1"}


def test_a_loops_target_counts_in_its_body() -> None:
    code = """
        x = 0
        for x in y:
            print(x)
        print(x)
        """
    assert reaching(code, 2) == {"y"}
    assert reaching(code, 3) == {"0", "y"}


def test_a_rebound_target_counts_below() -> None:
    code = """
        for x in y:
            print(x)
            x = x.cuda()
            print(x)
        """
    assert reaching(code, 1) == {"y"}
    assert reaching(code, 3) == {"y"}
    assert reaching(code, 4) == {"x.cuda()"}


def test_a_loops_iterable_is_evaluated_outside() -> None:
    assert reaching("x = a\nfor x in x:\n    pass\n", 2) == {"a"}


def test_a_while_test_sees_the_body() -> None:
    code = """
        x = 0
        while x:
            x = 1
        """
    assert reaching(code, 1) == {"0", "1"}


def test_the_else_of_a_loop_sees_the_body() -> None:
    code = """
        x = 0
        for i in y:
            x = 1
        else:
            print(x)
        """
    assert reaching(code, 2) == {"0", "1"}


def test_with_binds_for_its_body_and_after() -> None:
    code = """
        x = 0
        with f() as x:
            print(x)
        print(x)
        """
    assert reaching(code, 2) == {"f()"}
    assert reaching(code, 3) == {"f()"}


def test_assignments_within_with_are_straight_code() -> None:
    code = """
        x = 0
        with f():
            x = 1
        print(x)
        """
    assert reaching(code, 2) == {"1"}


def test_try_may_stop_anywhere() -> None:
    code = """
        x = 0
        try:
            x = 1
        except E:
            x = 2
        print(x)
        """
    assert reaching(code, 3) == {"1", "2"}
    assert reaching(code.replace("x = 2", "pass"), 2) == {"0", "1"}
    assert reaching(code.replace("x = 2", "raise"), 2) == {"1"}


def test_in_a_handler_the_tried_block_may_or_may_not_have_run() -> None:
    code = """
        x = 0
        try:
            x = 1
            g()
        except E:
            print(x)
        """
    assert reaching(code, 2) == {"0", "1"}


def test_a_parameter_reaches_until_it_is_rebound() -> None:
    code = """
        def f(x):
            print(x)
            x = x or 1
            print(x)
        """
    assert reaching(code, 1) == {"parameter"}
    assert reaching(code, 3) == {"parameter"}
    assert reaching(code, 4) == {"x or 1"}


def test_an_augmented_name_keeps_what_it_was() -> None:
    assert reaching("x = 0\nx += y\nprint(x)\n", 2) == {"0", "y"}


def test_inner_functions_see_every_binding() -> None:
    code = """
        def f():
            x = 1
            def g():
                return x
            x = 2
        """
    assert reaching(code, 1) == {"1", "2"}


def test_a_function_sees_all_that_the_module_ever_binds() -> None:
    assert reaching("x = 1\ndef f():\n    return x\nx = 2\n", 1) == {"1", "2"}


def test_tuple_targets_know_their_path() -> None:
    assert reaching("(a, (b, x)) = y\nprint(x)\n", 1) == {"y[1][1]"}


def test_a_binding_through_global_may_come_at_any_time() -> None:
    code = """
        x = None
        def build():
            global x
            x = Net()
        build()
        print(x)
        """
    assert reaching(code, 3) == {"None", "Net()"}


def test_a_walrus_in_a_condition_counts_below() -> None:
    assert reaching("x = 0\nif (x := f()):\n    print(x)\nprint(x)\n", 2) == {"f()"}
    assert reaching("x = 0\nif (x := f()):\n    print(x)\nprint(x)\n", 3) == {"f()"}
    assert reaching("x = 0\nwhile (x := f()):\n    print(x)\n", 2) == {"f()"}
    assert reaching("x = 0\ny = (x := f()) and x.a\n", 2) == {"f()"}


def test_a_pattern_counts_in_its_own_case() -> None:
    code = """
        def f(pair):
            x = 0
            match pair:
                case [x]:
                    return x
                case _:
                    return x
        """
    assert reaching(code, 2) == {"other"}
    assert reaching(code, 3) == {"0"}


def test_a_handler_binds_its_own_name() -> None:
    assert reaching("x = 0\ntry:\n    f()\nexcept E as x:\n    print(x)\n", 2) == {"other"}


def test_a_with_item_sees_those_before_it() -> None:
    assert reaching("x = 0\nwith f() as x, g(x): pass\n", 2) == {"f()"}


def test_one_line_suites() -> None:
    assert reaching("x = 0\nif flag: x = 1\nprint(x)\n", 2) == {"0", "1"}
    assert reaching("if flag: x = 1; print(x)\nx = 2\n", 1) == {"1"}
    assert reaching("x = 1; x = 2; print(x)\n", 2) == {"2"}


def test_two_assignments_on_one_line_in_order() -> None:
    assert reaching("x = 1; print(x); x = 2\n", 1) == {"1"}
