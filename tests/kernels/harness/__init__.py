"""What the kernel tests share.

``architectures``  the GPUs we compile for and their limits
``compiling``      compile a kernel for one of them and look at the result
``instructions``   what one and the same thing is called in each vendor's assembly
``element_types``  the element types of arrays, and how a CPU encodes those that numpy lacks
``device_arrays``  put numpy values where a kernel can reach them, and read them back
``hardware``       decide whether kernels run interpreted, on a GPU, or not at all
"""
