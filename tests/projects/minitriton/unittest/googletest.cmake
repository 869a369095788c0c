# FETCHCONTENT_SOURCE_DIR_GOOGLETEST names sources that are there already; nothing is downloaded then.
include(FetchContent)

FetchContent_Declare(
  googletest
  GIT_REPOSITORY https://github.com/google/googletest.git
  GIT_TAG release-1.12.1
)

set(BUILD_GMOCK OFF CACHE BOOL "Nothing here is mocked" FORCE)
set(INSTALL_GTEST OFF CACHE BOOL "Unit tests aren't installed" FORCE)
# Python is for googletest's own tests only; it would take whichever this machine has.
set(CMAKE_DISABLE_FIND_PACKAGE_Python ON)
FetchContent_MakeAvailable(googletest)
