"""Triton kernels and their tests.

One module a kernel holds the kernel and the function that launches it. Beside it stand two tests:

- ``<name>_test.py`` runs the kernel and compares its numbers with numpy: in Triton's interpreter
  on a CPU, or on an NVIDIA or AMD GPU through torch;
- ``<name>_compile_test.py`` compiles it for every architecture we support and reads the machine
  code. That needs neither a GPU nor torch.

``harness`` is what the tests share.
"""
