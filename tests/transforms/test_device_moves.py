"""Moves of tensors and models to the CUDA device."""

from __future__ import annotations

from transforms.device_passes import DEVICE
from transforms.helpers import check_transformed, migrate


class TestMoves:
    def test_device_at_hand_is_used(self) -> None:
        check_transformed(
            """\
            import torch

            dev = torch.device("cuda")


            def evaluate(model, x):
                return model.cuda()(x.cuda(non_blocking=True))
            """,
            """\
            import torch
            import torch_xla

            dev = torch_xla.device()


            def evaluate(model, x):
                return model.to(dev)(x.to(dev, non_blocking=True))
            """,
            *DEVICE,
        )

    def test_device_of_the_object_is_used(self) -> None:
        check_transformed(
            """\
            import torch


            class Trainer:
                def __init__(self, model):
                    self.device = torch.device("cuda")
                    self.model = model.cuda()

                def step(self, x):
                    return self.model(x.cuda(0))
            """,
            """\
            import torch
            import torch_xla


            class Trainer:
                def __init__(self, model):
                    self.device = torch_xla.device()
                    self.model = model.to(self.device)

                def step(self, x):
                    return self.model(x.to(self.device))
            """,
            *DEVICE,
        )

    def test_one_move_names_the_device_itself(self) -> None:
        check_transformed(
            "import torch\n\n\ndef build():\n    return (Net() if wide else Small()).cuda()\n",
            "import torch\nimport torch_xla\n\n\ndef build():\n"
            "    return (Net() if wide else Small()).to(torch_xla.device())\n",
            *DEVICE,
        )

    def test_several_moves_get_a_variable_above_the_outermost_block(self) -> None:
        check_transformed(
            """\
            import torch


            def train(model, feed):
                for x, y in feed():
                    x, y = x.cuda(), y.cuda()
                    model(x)
            """,
            """\
            import torch
            import torch_xla


            def train(model, feed):
                device = torch_xla.device()
                for x, y in feed():
                    x, y = x.to(device), y.to(device)
                    model(x)
            """,
            *DEVICE,
        )

    def test_variable_of_the_module_serves_its_functions(self) -> None:
        check_transformed(
            """\
            import torch


            def score(x):
                return net(x.cuda())


            net = Net().cuda()
            score(torch.zeros(2))
            """,
            """\
            import torch
            import torch_xla


            def score(x):
                return net(x.to(device))


            device = torch_xla.device()
            net = Net().to(device)
            score(torch.zeros(2))
            """,
            *DEVICE,
        )

    def test_name_device_that_is_taken_is_not_taken_again(self) -> None:
        code = """\
        import torch

        device = "the big one"
        print(device)
        net = Net().cuda()
        loss = torch.nn.MSELoss().cuda()
        """
        assert migrate(code, *DEVICE).code.count(".to(torch_xla.device())") == 2

    def test_move_under_a_flag_stays_under_it(self) -> None:
        check_transformed(
            """\
            import torch

            if args.cuda and torch.cuda.is_available():
                model.cuda()
            for x in feed:
                if args.cuda:
                    x = x.cuda()
                use(x)
            """,
            """\
            import torch
            import torch_xla

            if args.cuda:
                model.to(torch_xla.device())
            for x in feed:
                if args.cuda:
                    x = x.to(torch_xla.device())
                use(x)
            """,
            *DEVICE,
        )

    def test_move_without_a_flag_does_not_follow_the_flag(self) -> None:
        code = """\
        import torch

        device = torch.device("cuda" if args.cuda else "cpu")
        net = Net().to(device)
        loss = torch.nn.MSELoss().cuda()
        """
        assert "MSELoss().to(torch_xla.device())" in migrate(code, *DEVICE).code

    def test_numbers_and_nested_moves(self) -> None:
        check_transformed(
            """\
            import torch

            rank = int(0)
            device = torch.device("cuda")
            net = Net(torch.zeros(2).cuda()).cuda(rank, True)
            x = torch.zeros(2).to(rank)
            y = torch.zeros(2, device=0).to(torch.device(0))
            z = torch.zeros(2, device="cuda").to("cuda:0", non_blocking=True)
            """,
            """\
            import torch
            import torch_xla

            rank = int(0)
            device = torch_xla.device()
            net = Net(torch.zeros(2).to(device)).to(device, non_blocking=True)
            x = torch.zeros(2).to(device)
            y = torch.zeros(2, device=device).to(torch_xla.device())
            z = torch.zeros(2, device=device).to(device, non_blocking=True)
            """,
            *DEVICE,
        )



class TestDataParallel:
    def test_wrapper_goes_and_module_is_the_model(self) -> None:
        outcome = check_transformed(
            """\
            import torch
            import torch.nn as nn

            net = Net()
            if torch.cuda.device_count() > 1:
                net = nn.DataParallel(net)
            net = net.cuda()
            core = net.module if hasattr(net, "module") else net
            torch.save(net.module.state_dict(), "m.pt")
            """,
            """\
            import torch
            import torch.nn as nn
            import torch_xla

            net = Net()
            net = net.to(torch_xla.device())
            core = net
            torch.save(net.state_dict(), "m.pt")
            """,
            *DEVICE,
        )
        assert [(f.code, f.severity.label) for f in outcome.findings] == [("XLA121", "warning")]
        assert "batch" in outcome.findings[0].message

    def test_wrapper_inside_an_expression(self) -> None:
        check_transformed(
            "import torch\n\nmodel = torch.nn.DataParallel(Net(), device_ids=[0, 1]).cuda()\n",
            "import torch\nimport torch_xla\n\nmodel = Net().to(torch_xla.device())\n",
            *DEVICE,
        )

    def test_module_of_something_else_stays(self) -> None:
        code = """\
        import torch

        net = torch.nn.DataParallel(Net())
        ema = Average(net)
        print(ema.module)
        """
        assert "ema.module" in migrate(code, *DEVICE).code
