# The optional CUDA language, decided once for the whole build.
#
# Include it from the top CMakeLists.txt, before the first add_subdirectory. It sets
#   S2T_HAVE_CUDA   CUDA is enabled and CUDA::cudart, CUDA::cublas exist
#   S2T_HAVE_NCCL   and NCCL::nccl exists too: the NCCL backend can be built
# Absent parts cost one STATUS line; S2T_NCCL=ON turns absence into an error, OFF looks for nothing.
set(S2T_NCCL AUTO CACHE STRING "Build the NCCL backend: AUTO, ON or OFF")
set_property(CACHE S2T_NCCL PROPERTY STRINGS AUTO ON OFF)
set(S2T_HAVE_CUDA FALSE)
set(S2T_HAVE_NCCL FALSE)
list(APPEND CMAKE_MODULE_PATH ${CMAKE_CURRENT_LIST_DIR}/comm/nccl)

function(s2t_no_cuda why)
  if(S2T_NCCL STREQUAL "ON")
    message(FATAL_ERROR "S2T_NCCL=ON, but ${why}")
  endif()
  message(STATUS "NCCL backend: skipped, ${why}")
endfunction()

if(S2T_NCCL STREQUAL "OFF")
  s2t_no_cuda("S2T_NCCL=OFF")
else()
  # check_language looks only at PATH and CUDACXX; the toolkit's usual place is often in neither.
  if(NOT CMAKE_CUDA_COMPILER AND NOT DEFINED ENV{CUDACXX} AND EXISTS /usr/local/cuda/bin/nvcc)
    set(CMAKE_CUDA_COMPILER /usr/local/cuda/bin/nvcc)
  endif()
  include(CheckLanguage)
  check_language(CUDA)
  if(NOT CMAKE_CUDA_COMPILER)
    s2t_no_cuda("no CUDA compiler found (set CUDACXX)")
  else()
    # Must precede enable_language. sm_80 code, and sm_90 code with PTX for what comes after.
    # CUDA 13 has no sm_70 any more; "native" would need a GPU where it is built.
    if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
      set(CMAKE_CUDA_ARCHITECTURES 80-real 90)
    endif()
    enable_language(CUDA)
    set(CMAKE_CUDA_STANDARD 20)
    set(CMAKE_CUDA_STANDARD_REQUIRED ON)
    # nvcc knows C++20 since 12.0, but CMake 3.25 does not know that it does.
    if(NOT DEFINED CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
      set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
      set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
    endif()
    # A static CUDA runtime could not be replaced by the stand-ins of tests/standins.
    set(CMAKE_CUDA_RUNTIME_LIBRARY Shared)
    if(CCACHE AND NOT CMAKE_CUDA_COMPILER_LAUNCHER)
      set(CMAKE_CUDA_COMPILER_LAUNCHER ${CCACHE})
    endif()
    find_package(CUDAToolkit 12.0)
    if(CUDAToolkit_FOUND AND TARGET CUDA::cudart AND TARGET CUDA::cublas)
      set(S2T_HAVE_CUDA TRUE)
      find_package(NCCL 2.19)
    endif()
    if(NOT S2T_HAVE_CUDA)
      s2t_no_cuda("the CUDA toolkit lacks cudart or cuBLAS, or is older than 12.0")
    elseif(NOT NCCL_FOUND)
      s2t_no_cuda("NCCL 2.19 or newer not found (set NCCL_ROOT)")
    else()
      set(S2T_HAVE_NCCL TRUE)
      message(STATUS "NCCL backend: CUDA ${CUDAToolkit_VERSION}, NCCL ${NCCL_VERSION}, "
                     "architectures ${CMAKE_CUDA_ARCHITECTURES}")
    endif()
  endif()
endif()
