import torch
import torch_xla.core.xla_model as xm

from models.base_model import BaseModel
from models.networks import Discriminator, Generator, init_net


class PixModel(BaseModel):
    def __init__(self, opt):
        BaseModel.__init__(self, opt)
        self.loss_names = ["G_GAN", "G_L1", "D_real", "D_fake"]
        self.model_names = ["G", "D"]
        self.netG = init_net(Generator(), self.gpu_ids)
        self.netD = init_net(Discriminator(), self.gpu_ids)
        self.criterionGAN = torch.nn.MSELoss().to(self.device)
        self.criterionL1 = torch.nn.L1Loss()
        self.optimizer_G = torch.optim.Adam(self.netG.parameters(), lr=opt.lr, betas=(opt.beta1, 0.999))
        self.optimizer_D = torch.optim.Adam(self.netD.parameters(), lr=opt.lr, betas=(opt.beta1, 0.999))
        self.optimizers.append(self.optimizer_G)
        self.optimizers.append(self.optimizer_D)

    def set_input(self, input):
        self.real_A = input["A"].to(self.device)
        self.real_B = input["B"].to(self.device)
        self.image_paths = input["A_paths"]

    def forward(self):
        self.fake_B = self.netG(self.real_A)

    def gan_loss(self, prediction, target_is_real):
        target = torch.ones_like(prediction) if target_is_real else torch.zeros_like(prediction)
        return self.criterionGAN(prediction, target)

    def backward_D(self):
        fake_AB = torch.cat((self.real_A, self.fake_B), 1)
        self.loss_D_fake = self.gan_loss(self.netD(fake_AB.detach()), False)
        real_AB = torch.cat((self.real_A, self.real_B), 1)
        self.loss_D_real = self.gan_loss(self.netD(real_AB), True)
        self.loss_D = (self.loss_D_fake + self.loss_D_real) * 0.5
        self.loss_D.backward()

    def backward_G(self):
        fake_AB = torch.cat((self.real_A, self.fake_B), 1)
        self.loss_G_GAN = self.gan_loss(self.netD(fake_AB), True)
        self.loss_G_L1 = self.criterionL1(self.fake_B, self.real_B) * self.opt.lambda_L1
        self.loss_G = self.loss_G_GAN + self.loss_G_L1
        self.loss_G.backward()

    def optimize_parameters(self):
        self.forward()
        # update D
        self.set_requires_grad(self.netD, True)
        self.optimizer_D.zero_grad()
        self.backward_D()
        xm.optimizer_step(self.optimizer_D)
        # update G
        self.set_requires_grad(self.netD, False)
        self.optimizer_G.zero_grad()
        self.backward_G()
        xm.optimizer_step(self.optimizer_G)
