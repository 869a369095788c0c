# add_minitriton_library(NAME source... [DEPENDS tablegen_target...] [LINK_LIBS library...])
#
# A static library whose sources may include the headers that the DEPENDS generate. LLVM itself comes
# with MLIR's libraries, which name the shared one where LLVM was built so: naming LLVM's components
# here as well would put a second copy of LLVM into the process.
function(add_minitriton_library name)
  cmake_parse_arguments(ARG "" "" "DEPENDS;LINK_LIBS" ${ARGN})
  add_library(${name} STATIC ${ARG_UNPARSED_ARGUMENTS})
  if(ARG_DEPENDS)
    add_dependencies(${name} ${ARG_DEPENDS})
  endif()
  target_link_libraries(${name} PUBLIC ${ARG_LINK_LIBS})
endfunction()

# add_minitriton_tool(NAME source... [LINK_LIBS library...])
#
# An executable in BUILD/bin, where the lit tests look for it.
function(add_minitriton_tool name)
  cmake_parse_arguments(ARG "" "" "LINK_LIBS" ${ARGN})
  add_executable(${name} ${ARG_UNPARSED_ARGUMENTS})
  target_link_libraries(${name} PRIVATE ${ARG_LINK_LIBS})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/bin")
endfunction()
